CREATE TABLE period_dimensions
(
    `site` LowCardinality(String),
    `grain` Enum8('day' = 1, 'month' = 2),
    `dimension` LowCardinality(String),
    `kind` LowCardinality(String),
    `period` Date CODEC(Delta(2), LZ4),
    `value` String,
    `build` UInt64 CODEC(Delta(8), LZ4),
    `n` Int64,
    `visitors` AggregateFunction(uniqCombined64(15), UInt64)
)
ENGINE = MergeTree
PARTITION BY if(grain = 'month', toYear(period), toYYYYMM(period))
ORDER BY (site, grain, dimension, kind, period, value)
SETTINGS index_granularity = 8192
COMMENT 'Counts and visitors by the value of a dimension, of whole days and months (UTC): only rows of current builds count'
