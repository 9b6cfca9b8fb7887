-- from=2025-03-29&to=2025-03-31&interval=day&tz=Europe/Berlin

-- counts from visitors
SELECT start, sumIf(n, view) AS views, sum(n) AS events
FROM
(
    SELECT roundDown(toUInt32(bucket), {edges:Array(UInt32)}) AS start, name = 'pageview' AS view, n
    FROM visitors AS t FINAL
    WHERE site = {site:String}
        AND name = 'pageview'
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC') AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
)
GROUP BY start
-- edges = [1743202800 1743289200 1743372000]
-- site = example.com
-- first_bucket = 1743202800
-- end_bucket = 1743458400

-- visitors from visitors
SELECT start, toInt64(uniqCombined64Merge(17)(state)) AS visitors
FROM
(
    SELECT roundDown(toUInt32(bucket), {edges:Array(UInt32)}) AS start, t.visitors AS state
    FROM visitors AS t
    WHERE site = {site:String}
        AND name != 'engagement'
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC') AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
)
GROUP BY start
-- edges = [1743202800 1743289200 1743372000]
-- site = example.com
-- first_bucket = 1743202800
-- end_bucket = 1743458400
