-- dimension=browser&metrics=views,events,visitors&from=2025-03-01T10:07:00Z&to=2025-03-02T10:07:00Z

-- counts from dimensions
SELECT value, sumIf(n, view) AS views, sum(n) AS events
FROM
(
    SELECT value, kind = 'pageview' AS view, n
    FROM dimensions AS t FINAL
    WHERE site = {site:String}
        AND dimension = {dimension:String}
        AND kind IN ('pageview', 'event')
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC')
        AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
    UNION ALL
    SELECT toString(browser) AS value, name = 'pageview' AS view, n
    FROM events AS t
    WHERE site = {site:String}
        AND name != 'engagement'
        AND ((ts >= fromUnixTimestamp64Milli({from_1:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({to_1:Int64}, 'UTC')) OR (ts >= fromUnixTimestamp64Milli({from_2:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({to_2:Int64}, 'UTC')))
)
GROUP BY value
HAVING views != 0
ORDER BY views DESC, value
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
-- site = example.com
-- dimension = browser
-- first_bucket = 1740824100
-- end_bucket = 1740909600
-- from_1 = 1740823620000
-- to_1 = 1740824100000
-- from_2 = 1740909600000
-- to_2 = 1740910020000
-- limit = 100
-- offset = 0

-- visitors from dimensions
SELECT value, uniqCombined64Merge(15)(state) AS visitors
FROM
(
    SELECT value, t.visitors AS state
    FROM dimensions AS t
    WHERE site = {site:String}
        AND dimension = {dimension:String}
        AND kind IN ('pageview', 'event')
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC')
        AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
        AND value IN {values:Array(String)}
    UNION ALL
    SELECT toString(browser) AS value, uniqCombined64State(15)(t.visitor) AS state
    FROM events AS t
    WHERE site = {site:String}
        AND name != 'engagement'
        AND browser IN {values:Array(String)}
        AND ((ts >= fromUnixTimestamp64Milli({from_1:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({to_1:Int64}, 'UTC')) OR (ts >= fromUnixTimestamp64Milli({from_2:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({to_2:Int64}, 'UTC')))
        AND visitor != 0
    GROUP BY value
)
GROUP BY value
-- values = [first value second value]
-- site = example.com
-- dimension = browser
-- first_bucket = 1740824100
-- end_bucket = 1740909600
-- from_1 = 1740823620000
-- to_1 = 1740824100000
-- from_2 = 1740909600000
-- to_2 = 1740910020000
