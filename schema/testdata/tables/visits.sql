CREATE TABLE visits
(
    `site` LowCardinality(String),
    `day` Date COMMENT 'Of the site',
    `build` UInt64 CODEC(Delta(8), LZ4),
    `start` DateTime64(3, 'UTC') CODEC(Delta(8), LZ4),
    `visitor` UInt64,
    `duration_ms` UInt32 COMMENT 'From the first event to the last',
    `views` Int64,
    `events` Int64,
    `bounced` UInt8 COMMENT '1: no more than one event that counts as an action',
    `entry_path` String COMMENT 'First page viewed; empty: none',
    `exit_path` String COMMENT 'Last page viewed',
    `hostname` LowCardinality(String) COMMENT 'This and what follows are the first event\'s',
    `referrer` String,
    `source` LowCardinality(String),
    `channel` LowCardinality(String),
    `utm_source` LowCardinality(String),
    `utm_medium` LowCardinality(String),
    `utm_campaign` LowCardinality(String),
    `utm_content` LowCardinality(String),
    `utm_term` LowCardinality(String),
    `country` LowCardinality(String),
    `region` LowCardinality(String),
    `city` LowCardinality(String),
    `browser` LowCardinality(String),
    `browser_version` LowCardinality(String),
    `os` LowCardinality(String),
    `os_version` LowCardinality(String),
    `device` LowCardinality(String),
    `screen` LowCardinality(String),
    `language` LowCardinality(String)
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(day)
ORDER BY (site, day, start, visitor)
SETTINGS index_granularity = 8192
COMMENT 'Visits of closed days, one row each: only rows of current builds count'
