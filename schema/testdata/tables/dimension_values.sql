CREATE VIEW dimension_values
(
    `site` LowCardinality(String),
    `dimension` LowCardinality(String),
    `bucket` DateTime('UTC'),
    `value` String,
    `views` Int64,
    `events` Int64
)
COMMENT 'Views and events by the value of a dimension and quarter of an hour (UTC): add them up'
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
