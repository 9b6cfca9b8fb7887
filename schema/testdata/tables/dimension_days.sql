CREATE VIEW dimension_days
(
    `site` LowCardinality(String),
    `dimension` LowCardinality(String),
    `day` Date,
    `value` String,
    `views` Int64,
    `events` Int64,
    `visitors` UInt64
)
COMMENT 'Views, events and visitors by the value of a dimension and day (UTC); visitors of several rows do not add up'
AS SELECT
    site,
    dimension,
    toDate(bucket) AS day,
    value,
    sumIf(n, kind = 'pageview') AS views,
    sum(n) AS events,
    uniqCombined64Merge(15)(d.visitors) AS visitors
FROM dimensions AS d
GROUP BY
    site,
    dimension,
    day,
    value
