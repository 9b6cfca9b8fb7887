-- What became of each batch: one row before its first INSERT, one when its rows are known to be stored. A (site, day) is dirty
-- from the first row on. Batches are named by ULIDs, so the order is also the order in time.
CREATE TABLE IF NOT EXISTS {{table "ledger"}}
(
    batch String,
    state Enum8('intent' = 1, 'stored' = 2),
    node LowCardinality(String),
    at DateTime64(3, 'UTC'),
    segments Array(String),
    touched Array(Tuple(site String, day Date)) COMMENT 'Days are UTC',
    rows UInt64,
    n Int64 COMMENT 'Sum of n over the rows',
    oldest DateTime64(3, 'UTC') COMMENT 'Oldest received_at in the batch',
    outcome LowCardinality(String) COMMENT 'certain, checked or filled; empty in an intent',
    accepted Int64,
    stored Int64,
    duplicate Int64,
    parked Int64,
    quarantined Int64,
    undone Int64,
    forgotten Int64
)
ENGINE = {{engine "ReplacingMergeTree" "at"}}
ORDER BY (batch, state)
COMMENT 'Intents and outcomes of batches: read it with FINAL';
