CREATE MATERIALIZED VIEW feed_event_ids TO event_ids
(
    `id` FixedString(16),
    `site` String,
    `owner` String,
    `content` UInt64,
    `received_at` DateTime64(3, 'UTC')
)
AS SELECT
    id_hash AS id,
    site,
    owner,
    content_hash AS content,
    received_at
FROM inbox
WHERE id_hash != toFixedString('', 16)
