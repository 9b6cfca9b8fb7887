-- from=2025-03-01&to=2025-03-31&dimension=browser&path=/a

-- counts from events
SELECT value, sumIf(n, view) AS views, sum(n) AS events
FROM
(
    SELECT toString(browser) AS value, name = 'pageview' AS view, n
    FROM events AS t
    WHERE site = {site:String}
        AND name = 'pageview'
        AND path_key = {path:String}
        AND ts >= fromUnixTimestamp64Milli({from_1:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({to_1:Int64}, 'UTC')
)
GROUP BY value
HAVING views != 0
ORDER BY views DESC, value
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
-- site = example.com
-- path = /a
-- from_1 = 1740787200000
-- to_1 = 1743465600000
-- limit = 100
-- offset = 0

-- visitors from events
SELECT value, uniqCombined64Merge(15)(state) AS visitors
FROM
(
    SELECT toString(browser) AS value, uniqCombined64State(15)(t.visitor) AS state
    FROM events AS t
    WHERE site = {site:String}
        AND name != 'engagement'
        AND path_key = {path:String}
        AND browser IN {values:Array(String)}
        AND ts >= fromUnixTimestamp64Milli({from_1:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({to_1:Int64}, 'UTC')
        AND visitor != 0
    GROUP BY value
)
GROUP BY value
-- values = [first value second value]
-- site = example.com
-- path = /a
-- from_1 = 1740787200000
-- to_1 = 1743465600000
