-- Every breakdown in one table, filled by one view: several views would each read the block again. Engagement pings are no
-- events of their own and stay out. An empty value is stored as it is and named by whoever shows it.
CREATE TABLE IF NOT EXISTS {{table "dimensions"}}
(
    site LowCardinality(String),
    dimension LowCardinality(String),
    kind LowCardinality(String) COMMENT 'pageview, or event for every other name',
    bucket DateTime('UTC') CODEC(Delta, LZ4),
    value String,
    job LowCardinality(String),
    n SimpleAggregateFunction(sum, Int64),
    visitors AggregateFunction(uniqCombined64(15), UInt64)
)
ENGINE = {{engine "AggregatingMergeTree"}}
PARTITION BY toYYYYMM(bucket)
ORDER BY (site, dimension, kind, bucket, value, job)
SETTINGS {{dedup}}, {{monthly}}
COMMENT 'Counts and visitors by the value of a dimension: read them through sum(n) and uniqCombined64Merge(15)(visitors)';

CREATE MATERIALIZED VIEW IF NOT EXISTS {{view "feed_dimensions"}} TO {{table "dimensions"}}
AS SELECT
    CAST(site, 'LowCardinality(String)') AS site, dimension_value.1 AS dimension,
    if(name = 'pageview', 'pageview', 'event')::LowCardinality(String) AS kind,
    toStartOfFifteenMinutes(toDateTime(ts, 'UTC')) AS bucket, dimension_value.2 AS value, CAST(job, 'LowCardinality(String)') AS job,
    sum(n) AS n, uniqCombined64StateIf(15)(visitor, visitor != 0) AS visitors
FROM {{table "inbox"}}
ARRAY JOIN [
    ('path', path_key), ('title', title), ('source', source), ('channel', channel), ('referrer', referrer),
    ('utm_source', utm_source), ('utm_medium', utm_medium), ('utm_campaign', utm_campaign), ('utm_content', utm_content), ('utm_term', utm_term),
    ('country', country), ('region', region), ('city', city),
    ('browser', browser), ('browser_version', browser_version), ('os', os), ('os_version', os_version),
    ('device', device), ('screen', screen), ('language', language), ('hostname', hostname), ('name', name)
] AS dimension_value
WHERE name != 'engagement'
GROUP BY site, dimension, kind, bucket, value, job;
