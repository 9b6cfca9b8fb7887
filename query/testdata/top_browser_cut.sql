-- dimension=browser&metrics=views,events,visitors&from=2025-03-01T10:07:00Z&to=2025-03-02T10:07:00Z

-- counts from dimensions
SELECT value, sumIf(n, view) AS views, sum(n) AS events, toInt64(count() OVER ()) AS total_rows
FROM
(
    SELECT value, kind = 'pageview' AS view, n
    FROM dimensions AS t FINAL
    WHERE site = {site:String}
        AND dimension = {dimension:String}
        AND kind IN ('pageview', 'event')
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC') AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
    UNION ALL
    SELECT toString(browser) AS value, name = 'pageview' AS view, n
    FROM events AS t
    WHERE site = {site:String}
        AND ((ts >= fromUnixTimestamp64Milli({raw_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_1_to:Int64}, 'UTC')) OR (ts >= fromUnixTimestamp64Milli({raw_2_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_2_to:Int64}, 'UTC')))
        AND name != 'engagement'
)
GROUP BY value
HAVING views != 0
ORDER BY views DESC, value
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
-- site = example.com
-- dimension = browser
-- first_bucket = 1740824100
-- end_bucket = 1740909600
-- raw_1_from = 1740823620000
-- raw_1_to = 1740824100000
-- raw_2_from = 1740909600000
-- raw_2_to = 1740910020000
-- limit = 100
-- offset = 0

-- visitors from dimensions
SELECT value, toInt64(uniqCombined64Merge(15)(state)) AS visitors
FROM
(
    SELECT value, t.visitors AS state
    FROM dimensions AS t
    WHERE site = {site:String}
        AND dimension = {dimension:String}
        AND kind IN ('pageview', 'event')
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC') AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
        AND value IN {values:Array(String)}
    UNION ALL
    SELECT toString(browser) AS value, uniqCombined64State(15)(t.visitor) AS state
    FROM events AS t
    WHERE site = {site:String}
        AND ((ts >= fromUnixTimestamp64Milli({raw_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_1_to:Int64}, 'UTC')) OR (ts >= fromUnixTimestamp64Milli({raw_2_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_2_to:Int64}, 'UTC')))
        AND browser IN {values:Array(String)}
        AND name != 'engagement'
        AND visitor != 0
    GROUP BY value
)
GROUP BY value
-- site = example.com
-- dimension = browser
-- first_bucket = 1740824100
-- end_bucket = 1740909600
-- values = [first value 1 second value 1]
-- raw_1_from = 1740823620000
-- raw_1_to = 1740824100000
-- raw_2_from = 1740909600000
-- raw_2_to = 1740910020000
