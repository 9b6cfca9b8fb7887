CREATE TABLE builds
(
    `site` LowCardinality(String),
    `grain` Enum8('day' = 1, 'month' = 2, 'visits' = 3),
    `period` Date COMMENT 'First day: of UTC for day and month, of the site for visits',
    `build` UInt64 COMMENT 'Current rows of the period carry it; 0: none do',
    `changes` UInt64 COMMENT 'Of the UTC days that the period lies in, when the build began',
    `from` DateTime('UTC') COMMENT 'Start of the period',
    `to` DateTime('UTC') COMMENT 'End of the period',
    `at` DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(at)
ORDER BY (site, grain, period)
SETTINGS index_granularity = 8192
COMMENT 'Which build of a period is current: read it with FINAL'
