-- from=2025-03-01T10:01:00Z&to=2025-03-01T10:02:00Z

-- counts from visitors
SELECT sumIf(n, view) AS views, sum(n) AS events
FROM
(
    SELECT name = 'pageview' AS view, n
    FROM events AS t
    WHERE site = {site:String}
        AND name = 'pageview'
        AND ts >= fromUnixTimestamp64Milli({from_1:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({to_1:Int64}, 'UTC')
)
-- site = example.com
-- from_1 = 1740823260000
-- to_1 = 1740823320000

-- visitors from visitors
SELECT uniqCombined64Merge(17)(state) AS visitors
FROM
(
    SELECT uniqCombined64State(17)(t.visitor) AS state
    FROM events AS t
    WHERE site = {site:String}
        AND name != 'engagement'
        AND ts >= fromUnixTimestamp64Milli({from_1:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({to_1:Int64}, 'UTC')
        AND visitor != 0
)
-- site = example.com
-- from_1 = 1740823260000
-- to_1 = 1740823320000
