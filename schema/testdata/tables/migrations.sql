CREATE TABLE migrations
(
    `version` UInt32,
    `statement` UInt32,
    `file` String,
    `checksum` String COMMENT 'SHA-256 of the file',
    `ran_at` DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(ran_at)
ORDER BY (version, statement)
SETTINGS index_granularity = 8192
COMMENT 'Statements of migrations that were run'
