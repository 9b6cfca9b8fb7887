CREATE TABLE touched
(
    `site` LowCardinality(String),
    `day` Date COMMENT 'UTC',
    `changes` SimpleAggregateFunction(sum, UInt64) COMMENT 'Rows of the ledger that name the day: it only grows',
    `at` SimpleAggregateFunction(max, DateTime) COMMENT 'Last of them, by the server\'s clock'
)
ENGINE = AggregatingMergeTree
ORDER BY (site, day)
SETTINGS index_granularity = 8192
COMMENT 'How often a day of a site was touched: read it through sum(changes)'
