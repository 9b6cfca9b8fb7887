-- from=1971-05-01&to=1971-05-02&interval=day&tz=Africa/Monrovia

-- counts from events
SELECT start, sumIf(n, view) AS views, sum(n) AS events
FROM
(
    SELECT roundDown(toUInt32(toDateTime(ts)), {edges:Array(UInt32)}) AS start, name = 'pageview' AS view, n
    FROM events AS t
    WHERE site = {site:String}
        AND name = 'pageview'
        AND ts >= fromUnixTimestamp64Milli({from_1:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({to_1:Int64}, 'UTC')
)
GROUP BY start
ORDER BY start
-- edges = [41906670 41993070]
-- site = example.com
-- from_1 = 41906670000
-- to_1 = 42079470000

-- visitors from events
SELECT start, uniqCombined64Merge(17)(state) AS visitors
FROM
(
    SELECT roundDown(toUInt32(toDateTime(ts)), {edges:Array(UInt32)}) AS start, uniqCombined64State(17)(t.visitor) AS state
    FROM events AS t
    WHERE site = {site:String}
        AND name != 'engagement'
        AND ts >= fromUnixTimestamp64Milli({from_1:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({to_1:Int64}, 'UTC')
        AND visitor != 0
    GROUP BY start
)
GROUP BY start
ORDER BY start
-- site = example.com
-- from_1 = 41906670000
-- to_1 = 42079470000
-- edges = [41906670 41993070]
