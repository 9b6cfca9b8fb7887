CREATE TABLE visit_buckets
(
    `site` LowCardinality(String),
    `day` Date COMMENT 'Of the site',
    `bucket` DateTime('UTC') COMMENT 'In which the visits began',
    `build` UInt64,
    `visits` Int64,
    `bounces` Int64,
    `duration_ms` Int64,
    `views` Int64,
    `events` Int64
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(day)
ORDER BY (site, day, bucket)
SETTINGS index_granularity = 8192
COMMENT 'Visits of closed days by quarter of an hour (UTC): only rows of current builds count'
