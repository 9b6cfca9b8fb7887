-- dimension=entry_page&metrics=views&from=2025-03-01T10:07:00Z&to=2025-03-02T10:07:00Z

-- counts from events of visits
SELECT value, sumIf(n, view) AS views, sum(n) AS events, toInt64(count() OVER ()) AS total_rows
FROM
(
    SELECT toString(visit_entry_path) AS value, name = 'pageview' AS view, n
    FROM (SELECT * FROM (SELECT e.*, v.hostname AS visit_hostname, v.referrer AS visit_referrer, v.source AS visit_source, v.channel AS visit_channel, v.utm_source AS visit_utm_source, v.utm_medium AS visit_utm_medium, v.utm_campaign AS visit_utm_campaign, v.utm_content AS visit_utm_content, v.utm_term AS visit_utm_term, v.country AS visit_country, v.region AS visit_region, v.city AS visit_city, v.browser AS visit_browser, v.browser_version AS visit_browser_version, v.os AS visit_os, v.os_version AS visit_os_version, v.device AS visit_device, v.screen AS visit_screen, v.language AS visit_language, v.entry_path AS visit_entry_path, v.exit_path AS visit_exit_path, v.bounced AS visit_bounced, v.duration_ms AS visit_duration, v.views AS visit_views
FROM (SELECT
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
)) AS e
INNER JOIN (SELECT
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
)) AS v ON e.visit_day = v.visit_day AND e.visitor = v.visitor AND e.visit = v.visit) WHERE 1) AS t
    WHERE ts >= fromUnixTimestamp64Milli({whole_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({whole_to:Int64}, 'UTC')
        AND name = 'pageview'
)
GROUP BY value
HAVING views != 0
ORDER BY views DESC, value
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
-- days = [1740787200 1740873600]
-- site = example.com
-- day_1_from = 1740787200000
-- day_1_to = 1740960000000
-- whole_from = 1740823620000
-- whole_to = 1740910020000
-- limit = 100
-- offset = 0
