CREATE TABLE event_ids
(
    `id` FixedString(16),
    `site` LowCardinality(String),
    `owner` String COMMENT 'SEGMENT:INDEX of the journaled event',
    `content` UInt64,
    `received_at` DateTime64(3, 'UTC') CODEC(Delta(8), LZ4)
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(received_at)
ORDER BY id
TTL toDateTime(received_at) + toIntervalDay(3)
SETTINGS index_granularity = 256, ttl_only_drop_parts = 1, non_replicated_deduplication_window = 100000
COMMENT 'Event ids of the claim window and who owns them'
