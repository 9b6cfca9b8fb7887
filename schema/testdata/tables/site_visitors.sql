CREATE VIEW site_visitors
(
    `site` LowCardinality(String),
    `bucket` DateTime('UTC'),
    `views` Int64,
    `events` Int64,
    `visitors` UInt64
)
COMMENT 'Views, events and visitors by quarter of an hour (UTC); visitors of several rows do not add up'
AS SELECT
    site,
    bucket,
    sumIf(n, name = 'pageview') AS views,
    sum(n) AS events,
    uniqCombined64Merge(17)(v.visitors) AS visitors
FROM visitors AS v
WHERE name != 'engagement'
GROUP BY
    site,
    bucket
