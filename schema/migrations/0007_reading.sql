-- For Grafana and for people: plain columns in UTC, merge state hidden. Filters on site, bucket and day reach the tables'
-- primary keys. Views and events add up over any rows; visitors do not: a visitor of two rows is one visitor.
CREATE VIEW IF NOT EXISTS {{view "page_views"}} AS
SELECT site, bucket, path_key AS path, sum(n) AS views
FROM {{table "views"}}
WHERE name = 'pageview'
GROUP BY site, bucket, path_key
COMMENT 'Views by page and quarter of an hour (UTC): add them up';

CREATE VIEW IF NOT EXISTS {{view "site_visitors"}} AS
SELECT
    site, bucket,
    sumIf(n, name = 'pageview') AS views, sum(n) AS events,
    uniqCombined64Merge(17)(v.visitors) AS visitors
FROM {{table "visitors"}} AS v
WHERE name != 'engagement'
GROUP BY site, bucket
COMMENT 'Views, events and visitors by quarter of an hour (UTC); visitors of several rows do not add up';

CREATE VIEW IF NOT EXISTS {{view "site_days"}} AS
SELECT
    site, toDate(bucket) AS day,
    sumIf(n, name = 'pageview') AS views, sum(n) AS events,
    uniqCombined64Merge(17)(v.visitors) AS visitors
FROM {{table "visitors"}} AS v
WHERE name != 'engagement'
GROUP BY site, day
COMMENT 'Views, events and visitors by day (UTC); visitors of several days do not add up';

CREATE VIEW IF NOT EXISTS {{view "dimension_values"}} AS
SELECT site, dimension, bucket, value, sumIf(n, kind = 'pageview') AS views, sum(n) AS events
FROM {{table "dimensions"}}
GROUP BY site, dimension, bucket, value
COMMENT 'Views and events by the value of a dimension and quarter of an hour (UTC): add them up';

CREATE VIEW IF NOT EXISTS {{view "dimension_days"}} AS
SELECT
    site, dimension, toDate(bucket) AS day, value,
    sumIf(n, kind = 'pageview') AS views, sum(n) AS events,
    uniqCombined64Merge(15)(d.visitors) AS visitors
FROM {{table "dimensions"}} AS d
GROUP BY site, dimension, day, value
COMMENT 'Views, events and visitors by the value of a dimension and day (UTC); visitors of several rows do not add up';
