-- Counts by page, and counts with visitors by site, in buckets of 15 minutes UTC. The counter names its summed column, because
-- a SummingMergeTree would otherwise sum every number it finds; rows whose n adds up to zero vanish when parts merge, so nothing
-- but n may be read from it. Visitor 0 is nobody known and stays out of the sketch.
CREATE TABLE IF NOT EXISTS {{table "views"}}
(
    site LowCardinality(String),
    name LowCardinality(String),
    bucket DateTime('UTC') CODEC(Delta, LZ4),
    path_key String,
    job LowCardinality(String),
    n Int64
)
ENGINE = {{engine "SummingMergeTree" "n"}}
PARTITION BY toYYYYMM(bucket)
ORDER BY (site, name, bucket, path_key, job)
SETTINGS {{dedup}}, {{monthly}}
COMMENT 'The counter: read it through sum(n)';

CREATE MATERIALIZED VIEW IF NOT EXISTS {{view "feed_views"}} TO {{table "views"}}
AS SELECT
    site, name, toStartOfFifteenMinutes(toDateTime(ts, 'UTC')) AS bucket, path_key, job, sum(n) AS n
FROM {{table "inbox"}}
GROUP BY site, name, bucket, path_key, job;

CREATE TABLE IF NOT EXISTS {{table "visitors"}}
(
    site LowCardinality(String),
    name LowCardinality(String),
    bucket DateTime('UTC') CODEC(Delta, LZ4),
    job LowCardinality(String),
    n SimpleAggregateFunction(sum, Int64),
    visitors AggregateFunction(uniqCombined64(17), UInt64)
)
ENGINE = {{engine "AggregatingMergeTree"}}
PARTITION BY toYYYYMM(bucket)
ORDER BY (site, name, bucket, job)
SETTINGS {{dedup}}, {{monthly}}
COMMENT 'Visitors of a site: read them through uniqCombined64Merge(17)(visitors)';

CREATE MATERIALIZED VIEW IF NOT EXISTS {{view "feed_visitors"}} TO {{table "visitors"}}
AS SELECT
    site, name, toStartOfFifteenMinutes(toDateTime(ts, 'UTC')) AS bucket, job,
    sum(n) AS n, uniqCombined64StateIf(17)(visitor, visitor != 0) AS visitors
FROM {{table "inbox"}}
GROUP BY site, name, bucket, job;
