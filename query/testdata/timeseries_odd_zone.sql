-- from=1971-05-01&to=1971-05-02&interval=day&tz=Africa/Monrovia

-- counts from events
SELECT start, sumIf(n, view) AS views, sum(n) AS events
FROM
(
    SELECT roundDown(toUInt32(toDateTime(ts)), {edges:Array(UInt32)}) AS start, name = 'pageview' AS view, n
    FROM events AS t
    WHERE site = {site:String}
        AND ts >= fromUnixTimestamp64Milli({raw_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_1_to:Int64}, 'UTC')
        AND name = 'pageview'
)
GROUP BY start
-- site = example.com
-- raw_1_from = 41906670000
-- raw_1_to = 42079470000
-- edges = [41906670 41993070]

-- visitors from events
SELECT start, toInt64(uniqCombined64Merge(17)(state)) AS visitors
FROM
(
    SELECT roundDown(toUInt32(toDateTime(ts)), {edges:Array(UInt32)}) AS start, uniqCombined64State(17)(t.visitor) AS state
    FROM events AS t
    WHERE site = {site:String}
        AND ts >= fromUnixTimestamp64Milli({raw_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_1_to:Int64}, 'UTC')
        AND name != 'engagement'
        AND visitor != 0
    GROUP BY start
)
GROUP BY start
-- site = example.com
-- raw_1_from = 41906670000
-- raw_1_to = 42079470000
-- edges = [41906670 41993070]
