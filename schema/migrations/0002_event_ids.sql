-- Who owns an event id: asked when claims are rebuilt, and for each id while they cannot be asked themselves. Small granules
-- make the look-up of a few ids cheap; parts are dropped whole once every id in them is past the claim window and a day.
CREATE TABLE IF NOT EXISTS {{table "event_ids"}}
(
    id FixedString(16),
    site LowCardinality(String),
    owner String COMMENT 'SEGMENT:INDEX of the journaled event',
    content UInt64,
    received_at DateTime64(3, 'UTC') CODEC(Delta, LZ4)
)
ENGINE = {{engine "ReplacingMergeTree"}}
PARTITION BY toYYYYMMDD(received_at)
ORDER BY id
TTL toDateTime(received_at) + INTERVAL 3 DAY
SETTINGS index_granularity = 256, ttl_only_drop_parts = 1, {{dedup}}
COMMENT 'Event ids of the claim window and who owns them';

CREATE MATERIALIZED VIEW IF NOT EXISTS {{view "feed_event_ids"}} TO {{table "event_ids"}}
AS SELECT id_hash AS id, site, owner, content_hash AS content, received_at
FROM {{table "inbox"}}
WHERE id_hash != toFixedString('', 16);
