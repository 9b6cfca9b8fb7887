-- What was counted in closed periods, built from the quarter hours (days), from days (months) and from the events (visits), so that
-- years are read from few rows. Nothing but a builder writes here: a build adds rows under a number of its own, and a row of
-- `builds` makes it the current one. Rows of other builds are left over and deleted later.
--
-- A build is true as long as nothing touched its period since. The ledger tells: each of its rows adds one to the changes of the
-- days that it names, so a build remembers the changes it has seen and is passed over when there are more. No clock is compared.
CREATE TABLE IF NOT EXISTS {{table "touched"}}
(
    site LowCardinality(String),
    day Date COMMENT 'UTC',
    changes SimpleAggregateFunction(sum, UInt64) COMMENT 'Rows of the ledger that name the day: it only grows',
    at SimpleAggregateFunction(max, DateTime) COMMENT 'Last of them, by the server''s clock'
)
ENGINE = {{engine "AggregatingMergeTree"}}
ORDER BY (site, day)
COMMENT 'How often a day of a site was touched: read it through sum(changes)';

CREATE MATERIALIZED VIEW IF NOT EXISTS {{view "feed_touched"}} TO {{table "touched"}}
AS SELECT place.1 AS site, place.2 AS day, count() AS changes, toDateTime(now()) AS at
FROM (SELECT arrayJoin(touched) AS place FROM {{table "ledger"}})
GROUP BY site, day;

INSERT INTO {{table "touched"}} (site, day, changes, at)
SELECT place.1 AS site, place.2 AS day, count(), now()
FROM (SELECT arrayJoin(touched) AS place FROM {{table "ledger"}})
GROUP BY site, day;

CREATE TABLE IF NOT EXISTS {{table "builds"}}
(
    site LowCardinality(String),
    grain Enum8('day' = 1, 'month' = 2, 'visits' = 3),
    period Date COMMENT 'First day: of UTC for day and month, of the site for visits',
    build UInt64 COMMENT 'Current rows of the period carry it; 0: none do',
    changes UInt64 COMMENT 'Of the UTC days that the period lies in, when the build began',
    from DateTime('UTC') COMMENT 'Start of the period',
    to DateTime('UTC') COMMENT 'End of the period',
    at DateTime64(3, 'UTC')
)
ENGINE = {{engine "ReplacingMergeTree" "at"}}
ORDER BY (site, grain, period)
COMMENT 'Which build of a period is current: read it with FINAL';

CREATE TABLE IF NOT EXISTS {{table "period_views"}}
(
    site LowCardinality(String),
    grain Enum8('day' = 1, 'month' = 2),
    name LowCardinality(String),
    period Date CODEC(Delta, LZ4),
    path_key String,
    build UInt64 CODEC(Delta, LZ4),
    n Int64
)
ENGINE = {{engine "MergeTree"}}
PARTITION BY if(grain = 'month', toYear(period), toYYYYMM(period))
ORDER BY (site, grain, name, period, path_key)
COMMENT 'Counts by page of whole days and months (UTC): only rows of current builds count';

CREATE TABLE IF NOT EXISTS {{table "period_visitors"}}
(
    site LowCardinality(String),
    grain Enum8('day' = 1, 'month' = 2),
    name LowCardinality(String),
    period Date,
    build UInt64,
    n Int64,
    visitors AggregateFunction(uniqCombined64(17), UInt64)
)
ENGINE = {{engine "MergeTree"}}
PARTITION BY if(grain = 'month', toYear(period), toYYYYMM(period))
ORDER BY (site, grain, name, period)
COMMENT 'Counts and visitors of whole days and months (UTC): only rows of current builds count';

CREATE TABLE IF NOT EXISTS {{table "period_dimensions"}}
(
    site LowCardinality(String),
    grain Enum8('day' = 1, 'month' = 2),
    dimension LowCardinality(String),
    kind LowCardinality(String),
    period Date CODEC(Delta, LZ4),
    value String,
    build UInt64 CODEC(Delta, LZ4),
    n Int64,
    visitors AggregateFunction(uniqCombined64(15), UInt64)
)
ENGINE = {{engine "MergeTree"}}
PARTITION BY if(grain = 'month', toYear(period), toYYYYMM(period))
ORDER BY (site, grain, dimension, kind, period, value)
COMMENT 'Counts and visitors by the value of a dimension, of whole days and months (UTC): only rows of current builds count';

CREATE TABLE IF NOT EXISTS {{table "visits"}}
(
    site LowCardinality(String),
    day Date COMMENT 'Of the site',
    build UInt64 CODEC(Delta, LZ4),
    start DateTime64(3, 'UTC') CODEC(Delta, LZ4),
    visitor UInt64,
    duration_ms UInt32 COMMENT 'From the first event to the last',
    views Int64,
    events Int64,
    bounced UInt8 COMMENT '1: no more than one event that counts as an action',
    entry_path String COMMENT 'First page viewed; empty: none',
    exit_path String COMMENT 'Last page viewed',
    hostname LowCardinality(String) COMMENT 'This and what follows are the first event''s',
    referrer String,
    source LowCardinality(String),
    channel LowCardinality(String),
    utm_source LowCardinality(String),
    utm_medium LowCardinality(String),
    utm_campaign LowCardinality(String),
    utm_content LowCardinality(String),
    utm_term LowCardinality(String),
    country LowCardinality(String),
    region LowCardinality(String),
    city LowCardinality(String),
    browser LowCardinality(String),
    browser_version LowCardinality(String),
    os LowCardinality(String),
    os_version LowCardinality(String),
    device LowCardinality(String),
    screen LowCardinality(String),
    language LowCardinality(String)
)
ENGINE = {{engine "MergeTree"}}
PARTITION BY toYYYYMM(day)
ORDER BY (site, day, start, visitor)
COMMENT 'Visits of closed days, one row each: only rows of current builds count';

CREATE TABLE IF NOT EXISTS {{table "visit_buckets"}}
(
    site LowCardinality(String),
    day Date COMMENT 'Of the site',
    bucket DateTime('UTC') COMMENT 'In which the visits began',
    build UInt64,
    visits Int64,
    bounces Int64,
    duration_ms Int64,
    views Int64,
    events Int64
)
ENGINE = {{engine "MergeTree"}}
PARTITION BY toYYYYMM(day)
ORDER BY (site, day, bucket)
COMMENT 'Visits of closed days by quarter of an hour (UTC): only rows of current builds count';
