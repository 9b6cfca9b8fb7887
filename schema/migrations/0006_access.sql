-- Secrets. A day has one salt: the earliest row of the day, should two nodes have made one each. Salts are dropped when
-- nothing can need them any more: who holds yesterday's salt can try addresses against yesterday's visitors.
CREATE TABLE IF NOT EXISTS {{table "salts"}}
(
    day Date COMMENT 'Calendar day of a site, by its own clock',
    salt String COMMENT '16 random bytes in hex',
    created_at DateTime64(3, 'UTC'),
    node LowCardinality(String)
)
ENGINE = {{engine "ReplacingMergeTree"}}
ORDER BY (day, created_at, node)
TTL day + INTERVAL 3 DAY
SETTINGS merge_with_ttl_timeout = 3600
COMMENT 'Salts of visitor hashes: the earliest row of a day is the salt of the day';

CREATE TABLE IF NOT EXISTS {{table "keys"}}
(
    id String,
    name String,
    hash String COMMENT 'SHA-256 of the secret in hex; the secret itself is nowhere',
    scopes Array(String) COMMENT 'ingest, read, admin',
    sites Array(String) COMMENT 'Empty: all sites',
    created_at DateTime64(3, 'UTC'),
    updated_at DateTime64(3, 'UTC'),
    revoked UInt8
)
ENGINE = {{engine "ReplacingMergeTree" "updated_at"}}
ORDER BY id
COMMENT 'API keys, the newest row of an id counts: read it with FINAL';
