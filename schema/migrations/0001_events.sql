-- What is inserted, and the raw events. The inbox stores nothing: views read each inserted block and fill the tables, so that
-- every table can also be filled alone when a batch has to be repaired. Text is plain here and LowCardinality in the targets
-- because the engine casts faster than a client can build dictionaries.
CREATE TABLE IF NOT EXISTS {{table "inbox"}}
(
    site String,
    name String,
    hostname String,
    path String,
    path_key String,
    title String,
    referrer String,
    source String,
    channel String,
    utm_source String,
    utm_medium String,
    utm_campaign String,
    utm_content String,
    utm_term String,
    country String,
    region String,
    city String,
    browser String,
    browser_version String,
    os String,
    os_version String,
    device String,
    screen String,
    language String,
    event_id String,
    namespace String,
    job String,
    ts DateTime64(3, 'UTC'),
    received_at DateTime64(3, 'UTC'),
    visitor UInt64,
    n Int64,
    engaged_ms UInt32,
    scroll UInt8 DEFAULT 255,
    flags UInt16,
    props Map(String, String),
    batch String,
    id_hash FixedString(16),
    content_hash UInt64,
    owner String
)
ENGINE = Null
COMMENT 'Events are inserted here; views carry them into events, event_ids, views, visitors and dimensions';

CREATE TABLE IF NOT EXISTS {{table "events"}}
(
    site LowCardinality(String),
    name LowCardinality(String),
    hostname LowCardinality(String),
    path String,
    path_key String,
    title String,
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
    language LowCardinality(String),
    event_id String,
    namespace LowCardinality(String),
    job LowCardinality(String),
    ts DateTime64(3, 'UTC') CODEC(Delta, LZ4),
    received_at DateTime64(3, 'UTC') CODEC(Delta, LZ4),
    visitor UInt64,
    n Int64,
    engaged_ms UInt32,
    scroll UInt8 DEFAULT 255 COMMENT 'Per cent; 255 when absent',
    flags UInt16,
    props Map(LowCardinality(String), String),
    batch String COMMENT 'The INSERT that brought the row',
    INDEX batch_range batch TYPE minmax GRANULARITY 1
)
ENGINE = {{engine "MergeTree"}}
PARTITION BY toYYYYMM(ts)
ORDER BY (site, name, ts)
SETTINGS {{dedup}}, {{monthly}}
COMMENT 'Every event, one row each';

CREATE MATERIALIZED VIEW IF NOT EXISTS {{view "feed_events"}} TO {{table "events"}}
AS SELECT
    site, name, hostname, path, path_key, title, referrer, source, channel,
    utm_source, utm_medium, utm_campaign, utm_content, utm_term,
    country, region, city, browser, browser_version, os, os_version, device, screen, language,
    event_id, namespace, job, ts, received_at, visitor, n, engaged_ms, scroll, flags,
    props, batch
FROM {{table "inbox"}};
