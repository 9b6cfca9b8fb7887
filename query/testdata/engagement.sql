-- from=2025-03-01&to=2025-03-02&dimension=path&metrics=views,time_on_page,scroll_depth

-- counts from views
SELECT value, sumIf(n, view) AS views, sum(n) AS events, toInt64(count() OVER ()) AS total_rows
FROM
(
    SELECT path_key AS value, name = 'pageview' AS view, n
    FROM views AS t FINAL
    WHERE site = {site:String}
        AND name = 'pageview'
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC') AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
)
GROUP BY value
HAVING views != 0
ORDER BY views DESC, value
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
-- site = example.com
-- first_bucket = 1740787200
-- end_bucket = 1740960000
-- limit = 100
-- offset = 0

-- pings from events
SELECT value, toInt64(sum(e)) AS engaged_ms, toInt64(countIf(e > 0)) AS engaged, toInt64(sumIf(s, s >= 0)) AS scroll, toInt64(countIf(s >= 0)) AS scrolled
FROM
(
    SELECT toString(path_key) AS value, visitor, sum(engaged_ms) AS e, max(if(scroll > 100, -1, toInt16(scroll))) AS s
    FROM events AS t
    WHERE site = {site:String}
        AND ts >= fromUnixTimestamp64Milli({raw_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_1_to:Int64}, 'UTC')
        AND path_key IN {values:Array(String)}
        AND name = 'engagement'
        AND visitor != 0
    GROUP BY value, visitor
)
GROUP BY value
-- site = example.com
-- raw_1_from = 1740787200000
-- raw_1_to = 1740960000000
-- values = [first value 1 second value 1]
