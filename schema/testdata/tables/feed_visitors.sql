CREATE MATERIALIZED VIEW feed_visitors TO visitors
(
    `site` String,
    `name` String,
    `bucket` DateTime('UTC'),
    `job` String,
    `n` Int64,
    `visitors` AggregateFunction(uniqCombined64(17), UInt64)
)
AS SELECT
    site,
    name,
    toStartOfFifteenMinutes(toDateTime(ts, 'UTC')) AS bucket,
    job,
    sum(n) AS n,
    uniqCombined64StateIf(17)(visitor, visitor != 0) AS visitors
FROM inbox
GROUP BY
    site,
    name,
    bucket,
    job
