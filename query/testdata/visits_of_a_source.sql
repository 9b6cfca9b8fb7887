-- from=2025-03-01&to=2025-03-02&metrics=visits&filters=%5B%5B%22is%22%2C%22source%22%2C%5B%22Direct+%2F+None%22%5D%5D%5D

-- visits from visits
SELECT toInt64(sum(c)) AS visits, toInt64(sum(bounced)) AS bounces, toInt64(sum(duration)) AS duration_ms, toInt64(sum(v)) AS visit_views
FROM
(
    SELECT 1 AS c, bounced, duration_ms AS duration, t.views AS v
    FROM (SELECT
    visit_day, visit, visitor, toUInt32(last - visit) AS duration_ms, views, events, toUInt8(actions <= 1) AS bounced, entry_path, exit_path,
    tupleElement(first, 1) AS hostname, tupleElement(first, 2) AS referrer, tupleElement(first, 3) AS source, tupleElement(first, 4) AS channel, tupleElement(first, 5) AS utm_source, tupleElement(first, 6) AS utm_medium, tupleElement(first, 7) AS utm_campaign, tupleElement(first, 8) AS utm_content, tupleElement(first, 9) AS utm_term, tupleElement(first, 10) AS country, tupleElement(first, 11) AS region, tupleElement(first, 12) AS city, tupleElement(first, 13) AS browser, tupleElement(first, 14) AS browser_version, tupleElement(first, 15) AS os, tupleElement(first, 16) AS os_version, tupleElement(first, 17) AS device, tupleElement(first, 18) AS screen, tupleElement(first, 19) AS language
FROM
(
    SELECT
        visit_day, visit, visitor,
        max(toUnixTimestamp64Milli(ts)) AS last,
        sumIf(n, name = 'pageview') AS views,
        sum(n) AS events,
        sumIf(n, bitAnd(flags, 2) = 0) AS actions,
        argMinIf(path_key, (ts, received_at, path_key, name, n), name = 'pageview') AS entry_path,
        argMaxIf(path_key, (ts, received_at, path_key, name, n), name = 'pageview') AS exit_path,
        argMin((hostname, referrer, source, channel, utm_source, utm_medium, utm_campaign, utm_content, utm_term, country, region, city, browser, browser_version, os, os_version, device, screen, language), (ts, received_at, path_key, name, n)) AS first
    FROM
    (
SELECT
    * EXCEPT (at_ms, begins),
    max(if(begins, at_ms, 0)) OVER (PARTITION BY visit_day, visitor ORDER BY ts, received_at, path_key, name, n ROWS UNBOUNDED PRECEDING) AS visit
FROM
(
    SELECT
        *,
        roundDown(toUInt32(toDateTime(ts)), {days:Array(UInt32)}) AS visit_day,
        toUnixTimestamp64Milli(ts) AS at_ms,
        at_ms - lagInFrame(at_ms, 1, -1800000) OVER (PARTITION BY visit_day, visitor ORDER BY ts, received_at, path_key, name, n ROWS UNBOUNDED PRECEDING) >= 1800000 AS begins
    FROM (SELECT * FROM events WHERE site = {site:String} AND name != 'engagement' AND visitor != 0 AND n > 0 AND ts >= fromUnixTimestamp64Milli({day_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({day_1_to:Int64}, 'UTC'))
)
    )
    GROUP BY visit_day, visit, visitor
)) AS t
    WHERE fromUnixTimestamp64Milli(t.visit, 'UTC') >= fromUnixTimestamp64Milli({gap_1_from:Int64}, 'UTC') AND fromUnixTimestamp64Milli(t.visit, 'UTC') < fromUnixTimestamp64Milli({gap_1_to:Int64}, 'UTC')
        AND t.source IN {filter_1:Array(String)}
)
-- gap_1_from = 1740787200000
-- gap_1_to = 1740960000000
-- days = [1740787200 1740873600]
-- site = example.com
-- day_1_from = 1740787200000
-- day_1_to = 1740960000000
-- filter_1 = []
