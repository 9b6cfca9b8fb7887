CREATE TABLE visitors
(
    `site` LowCardinality(String),
    `name` LowCardinality(String),
    `bucket` DateTime('UTC') CODEC(Delta(4), LZ4),
    `job` LowCardinality(String),
    `n` SimpleAggregateFunction(sum, Int64),
    `visitors` AggregateFunction(uniqCombined64(17), UInt64)
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(bucket)
ORDER BY (site, name, bucket, job)
SETTINGS non_replicated_deduplication_window = 100000, min_age_to_force_merge_seconds = 3600, min_age_to_force_merge_on_partition_only = 1, index_granularity = 8192
COMMENT 'Visitors of a site: read them through uniqCombined64Merge(17)(visitors)'
