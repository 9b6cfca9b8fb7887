-- from=2025-03-01T10:01:00Z&to=2025-03-01T10:02:00Z

-- counts from visitors
SELECT sumIf(n, view) AS views, sum(n) AS events
FROM
(
    SELECT name = 'pageview' AS view, n
    FROM events AS t
    WHERE site = {site:String}
        AND ts >= fromUnixTimestamp64Milli({raw_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_1_to:Int64}, 'UTC')
        AND name = 'pageview'
)
-- site = example.com
-- raw_1_from = 1740823260000
-- raw_1_to = 1740823320000

-- visitors from visitors
SELECT toInt64(uniqCombined64Merge(17)(state)) AS visitors
FROM
(
    SELECT uniqCombined64State(17)(t.visitor) AS state
    FROM events AS t
    WHERE site = {site:String}
        AND ts >= fromUnixTimestamp64Milli({raw_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_1_to:Int64}, 'UTC')
        AND name != 'engagement'
        AND visitor != 0
)
-- site = example.com
-- raw_1_from = 1740823260000
-- raw_1_to = 1740823320000
