CREATE TABLE salts
(
    `day` Date COMMENT 'Calendar day of a site, by its own clock',
    `salt` String COMMENT '16 random bytes in hex',
    `created_at` DateTime64(3, 'UTC'),
    `node` LowCardinality(String)
)
ENGINE = ReplacingMergeTree
ORDER BY (day, created_at, node)
TTL day + toIntervalDay(3)
SETTINGS merge_with_ttl_timeout = 3600, index_granularity = 8192
COMMENT 'Salts of visitor hashes: the earliest row of a day is the salt of the day'
