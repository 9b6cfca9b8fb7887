CREATE TABLE events
(
    `site` LowCardinality(String),
    `name` LowCardinality(String),
    `hostname` LowCardinality(String),
    `path` String,
    `path_key` String,
    `title` String,
    `referrer` String,
    `source` LowCardinality(String),
    `channel` LowCardinality(String),
    `utm_source` LowCardinality(String),
    `utm_medium` LowCardinality(String),
    `utm_campaign` LowCardinality(String),
    `utm_content` LowCardinality(String),
    `utm_term` LowCardinality(String),
    `country` LowCardinality(String),
    `region` LowCardinality(String),
    `city` LowCardinality(String),
    `browser` LowCardinality(String),
    `browser_version` LowCardinality(String),
    `os` LowCardinality(String),
    `os_version` LowCardinality(String),
    `device` LowCardinality(String),
    `screen` LowCardinality(String),
    `language` LowCardinality(String),
    `event_id` String,
    `namespace` LowCardinality(String),
    `job` LowCardinality(String),
    `ts` DateTime64(3, 'UTC') CODEC(Delta(8), LZ4),
    `received_at` DateTime64(3, 'UTC') CODEC(Delta(8), LZ4),
    `visitor` UInt64,
    `n` Int64,
    `engaged_ms` UInt32,
    `scroll` UInt8 DEFAULT 255 COMMENT 'Per cent; 255 when absent',
    `flags` UInt16,
    `props` Map(LowCardinality(String), String),
    `batch` String COMMENT 'The INSERT that brought the row',
    INDEX batch_range batch TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(ts)
ORDER BY (site, name, ts)
SETTINGS non_replicated_deduplication_window = 100000, min_age_to_force_merge_seconds = 3600, min_age_to_force_merge_on_partition_only = 1, index_granularity = 8192
COMMENT 'Every event, one row each'
