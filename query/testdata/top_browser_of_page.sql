-- from=2025-03-01&to=2025-03-31&dimension=browser&path=/a

-- counts from events
SELECT value, sumIf(n, view) AS views, sum(n) AS events, toInt64(count() OVER ()) AS total_rows
FROM
(
    SELECT toString(browser) AS value, name = 'pageview' AS view, n
    FROM events AS t
    WHERE site = {site:String}
        AND path_key = {path:String}
        AND ts >= fromUnixTimestamp64Milli({raw_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_1_to:Int64}, 'UTC')
        AND name = 'pageview'
)
GROUP BY value
HAVING views != 0
ORDER BY views DESC, value
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
-- site = example.com
-- path = /a
-- raw_1_from = 1740787200000
-- raw_1_to = 1743465600000
-- limit = 100
-- offset = 0

-- visitors from events
SELECT value, toInt64(uniqCombined64Merge(15)(state)) AS visitors
FROM
(
    SELECT toString(browser) AS value, uniqCombined64State(15)(t.visitor) AS state
    FROM events AS t
    WHERE site = {site:String}
        AND path_key = {path:String}
        AND ts >= fromUnixTimestamp64Milli({raw_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_1_to:Int64}, 'UTC')
        AND browser IN {values:Array(String)}
        AND name != 'engagement'
        AND visitor != 0
    GROUP BY value
)
GROUP BY value
-- site = example.com
-- path = /a
-- raw_1_from = 1740787200000
-- raw_1_to = 1743465600000
-- values = [first value 1 second value 1]
