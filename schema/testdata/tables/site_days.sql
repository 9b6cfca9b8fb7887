CREATE VIEW site_days
(
    `site` LowCardinality(String),
    `day` Date,
    `views` Int64,
    `events` Int64,
    `visitors` UInt64
)
COMMENT 'Views, events and visitors by day (UTC); visitors of several days do not add up'
AS SELECT
    site,
    toDate(bucket) AS day,
    sumIf(n, name = 'pageview') AS views,
    sum(n) AS events,
    uniqCombined64Merge(17)(v.visitors) AS visitors
FROM visitors AS v
WHERE name != 'engagement'
GROUP BY
    site,
    day
