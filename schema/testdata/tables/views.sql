CREATE TABLE views
(
    `site` LowCardinality(String),
    `name` LowCardinality(String),
    `bucket` DateTime('UTC') CODEC(Delta(4), LZ4),
    `path_key` String,
    `job` LowCardinality(String),
    `n` Int64
)
ENGINE = SummingMergeTree(n)
PARTITION BY toYYYYMM(bucket)
ORDER BY (site, name, bucket, path_key, job)
SETTINGS non_replicated_deduplication_window = 100000, min_age_to_force_merge_seconds = 3600, min_age_to_force_merge_on_partition_only = 1, index_granularity = 8192
COMMENT 'The counter: read it through sum(n)'
