CREATE TABLE dimensions
(
    `site` LowCardinality(String),
    `dimension` LowCardinality(String),
    `kind` LowCardinality(String) COMMENT 'pageview, or event for every other name',
    `bucket` DateTime('UTC') CODEC(Delta(4), LZ4),
    `value` String,
    `job` LowCardinality(String),
    `n` SimpleAggregateFunction(sum, Int64),
    `visitors` AggregateFunction(uniqCombined64(15), UInt64)
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(bucket)
ORDER BY (site, dimension, kind, bucket, value, job)
SETTINGS non_replicated_deduplication_window = 100000, min_age_to_force_merge_seconds = 3600, min_age_to_force_merge_on_partition_only = 1, index_granularity = 8192
COMMENT 'Counts and visitors by the value of a dimension: read them through sum(n) and uniqCombined64Merge(15)(visitors)'
