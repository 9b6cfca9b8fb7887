CREATE TABLE period_visitors
(
    `site` LowCardinality(String),
    `grain` Enum8('day' = 1, 'month' = 2),
    `name` LowCardinality(String),
    `period` Date,
    `build` UInt64,
    `n` Int64,
    `visitors` AggregateFunction(uniqCombined64(17), UInt64)
)
ENGINE = MergeTree
PARTITION BY if(grain = 'month', toYear(period), toYYYYMM(period))
ORDER BY (site, grain, name, period)
SETTINGS index_granularity = 8192
COMMENT 'Counts and visitors of whole days and months (UTC): only rows of current builds count'
