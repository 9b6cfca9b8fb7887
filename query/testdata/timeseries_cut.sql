-- interval=hour&path=/a&from=2025-03-01T10:07:00Z&to=2025-03-02T10:07:00Z

-- counts from views
SELECT start, sumIf(n, view) AS views, sum(n) AS events
FROM
(
    SELECT roundDown(toUInt32(bucket), {edges:Array(UInt32)}) AS start, name = 'pageview' AS view, n
    FROM views AS t FINAL
    WHERE site = {site:String}
        AND name = 'pageview'
        AND path_key = {path:String}
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC') AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
    UNION ALL
    SELECT roundDown(toUInt32(toDateTime(ts)), {edges:Array(UInt32)}) AS start, name = 'pageview' AS view, n
    FROM events AS t
    WHERE site = {site:String}
        AND path_key = {path:String}
        AND ((ts >= fromUnixTimestamp64Milli({raw_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_1_to:Int64}, 'UTC')) OR (ts >= fromUnixTimestamp64Milli({raw_2_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_2_to:Int64}, 'UTC')))
        AND name = 'pageview'
)
GROUP BY start
-- edges = [1740823200 1740826800 1740830400 1740834000 1740837600 1740841200 1740844800 1740848400 1740852000 1740855600 1740859200 1740862800 1740866400 1740870000 1740873600 1740877200 1740880800 1740884400 1740888000 1740891600 1740895200 1740898800 1740902400 1740906000 1740909600]
-- site = example.com
-- path = /a
-- first_bucket = 1740824100
-- end_bucket = 1740909600
-- raw_1_from = 1740823620000
-- raw_1_to = 1740824100000
-- raw_2_from = 1740909600000
-- raw_2_to = 1740910020000

-- visitors from dimensions
SELECT start, toInt64(uniqCombined64Merge(15)(state)) AS visitors
FROM
(
    SELECT roundDown(toUInt32(bucket), {edges:Array(UInt32)}) AS start, t.visitors AS state
    FROM dimensions AS t
    WHERE site = {site:String}
        AND dimension = {dimension:String}
        AND kind IN ('pageview', 'event')
        AND value = {path:String}
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC') AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
    UNION ALL
    SELECT roundDown(toUInt32(toDateTime(ts)), {edges:Array(UInt32)}) AS start, uniqCombined64State(15)(t.visitor) AS state
    FROM events AS t
    WHERE site = {site:String}
        AND path_key = {path:String}
        AND ((ts >= fromUnixTimestamp64Milli({raw_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_1_to:Int64}, 'UTC')) OR (ts >= fromUnixTimestamp64Milli({raw_2_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_2_to:Int64}, 'UTC')))
        AND name != 'engagement'
        AND visitor != 0
    GROUP BY start
)
GROUP BY start
-- edges = [1740823200 1740826800 1740830400 1740834000 1740837600 1740841200 1740844800 1740848400 1740852000 1740855600 1740859200 1740862800 1740866400 1740870000 1740873600 1740877200 1740880800 1740884400 1740888000 1740891600 1740895200 1740898800 1740902400 1740906000 1740909600]
-- site = example.com
-- dimension = path
-- path = /a
-- first_bucket = 1740824100
-- end_bucket = 1740909600
-- raw_1_from = 1740823620000
-- raw_1_to = 1740824100000
-- raw_2_from = 1740909600000
-- raw_2_to = 1740910020000
