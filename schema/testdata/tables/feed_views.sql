CREATE MATERIALIZED VIEW feed_views TO views
(
    `site` String,
    `name` String,
    `bucket` DateTime('UTC'),
    `path_key` String,
    `job` String,
    `n` Int64
)
AS SELECT
    site,
    name,
    toStartOfFifteenMinutes(toDateTime(ts, 'UTC')) AS bucket,
    path_key,
    job,
    sum(n) AS n
FROM inbox
GROUP BY
    site,
    name,
    bucket,
    path_key,
    job
