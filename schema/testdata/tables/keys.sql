CREATE TABLE keys
(
    `id` String,
    `name` String,
    `hash` String COMMENT 'SHA-256 of the secret in hex; the secret itself is nowhere',
    `scopes` Array(String) COMMENT 'ingest, read, admin',
    `sites` Array(String) COMMENT 'Empty: all sites',
    `created_at` DateTime64(3, 'UTC'),
    `updated_at` DateTime64(3, 'UTC'),
    `revoked` UInt8
)
ENGINE = ReplacingMergeTree(updated_at)
ORDER BY id
SETTINGS index_granularity = 8192
COMMENT 'API keys, the newest row of an id counts: read it with FINAL'
