CREATE TABLE ledger
(
    `batch` String,
    `state` Enum8('intent' = 1, 'stored' = 2),
    `node` LowCardinality(String),
    `at` DateTime64(3, 'UTC'),
    `segments` Array(String),
    `touched` Array(Tuple(
        site String,
        day Date)) COMMENT 'Days are UTC',
    `rows` UInt64,
    `n` Int64 COMMENT 'Sum of n over the rows',
    `oldest` DateTime64(3, 'UTC') COMMENT 'Oldest received_at in the batch',
    `outcome` LowCardinality(String) COMMENT 'certain, checked or filled; empty in an intent',
    `accepted` Int64,
    `stored` Int64,
    `duplicate` Int64,
    `parked` Int64,
    `quarantined` Int64,
    `undone` Int64,
    `forgotten` Int64
)
ENGINE = ReplacingMergeTree(at)
ORDER BY (batch, state)
SETTINGS index_granularity = 8192
COMMENT 'Intents and outcomes of batches: read it with FINAL'
