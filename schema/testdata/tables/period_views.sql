CREATE TABLE period_views
(
    `site` LowCardinality(String),
    `grain` Enum8('day' = 1, 'month' = 2),
    `name` LowCardinality(String),
    `period` Date CODEC(Delta(2), LZ4),
    `path_key` String,
    `build` UInt64 CODEC(Delta(8), LZ4),
    `n` Int64
)
ENGINE = MergeTree
PARTITION BY if(grain = 'month', toYear(period), toYYYYMM(period))
ORDER BY (site, grain, name, period, path_key)
SETTINGS index_granularity = 8192
COMMENT 'Counts by page of whole days and months (UTC): only rows of current builds count'
