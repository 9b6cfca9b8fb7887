CREATE VIEW dimension_values
(
    `site` LowCardinality(String),
    `dimension` LowCardinality(String),
    `bucket` DateTime('UTC'),
    `value` String,
    `views` Int64,
    `events` Int64
)
AS SELECT
    site,
    dimension,
    bucket,
    value,
    sumIf(n, kind = 'pageview') AS views,
    sum(n) AS events
FROM dimensions
GROUP BY
    site,
    dimension,
    bucket,
    value
