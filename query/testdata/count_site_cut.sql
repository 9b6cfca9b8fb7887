-- metrics=views,visitors&from=2025-03-01T10:07:00Z&to=2025-03-02T10:07:00Z

-- counts from visitors
SELECT sumIf(n, view) AS views, sum(n) AS events
FROM
(
    SELECT name = 'pageview' AS view, n
    FROM visitors AS t FINAL
    WHERE site = {site:String}
        AND name = 'pageview'
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC')
        AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
    UNION ALL
    SELECT name = 'pageview' AS view, n
    FROM events AS t
    WHERE site = {site:String}
        AND name = 'pageview'
        AND ((ts >= fromUnixTimestamp64Milli({from_1:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({to_1:Int64}, 'UTC')) OR (ts >= fromUnixTimestamp64Milli({from_2:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({to_2:Int64}, 'UTC')))
)
-- site = example.com
-- first_bucket = 1740824100
-- end_bucket = 1740909600
-- from_1 = 1740823620000
-- to_1 = 1740824100000
-- from_2 = 1740909600000
-- to_2 = 1740910020000

-- visitors from visitors
SELECT uniqCombined64Merge(17)(state) AS visitors
FROM
(
    SELECT t.visitors AS state
    FROM visitors AS t
    WHERE site = {site:String}
        AND name != 'engagement'
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC')
        AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
    UNION ALL
    SELECT uniqCombined64State(17)(t.visitor) AS state
    FROM events AS t
    WHERE site = {site:String}
        AND name != 'engagement'
        AND ((ts >= fromUnixTimestamp64Milli({from_1:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({to_1:Int64}, 'UTC')) OR (ts >= fromUnixTimestamp64Milli({from_2:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({to_2:Int64}, 'UTC')))
        AND visitor != 0
)
-- site = example.com
-- first_bucket = 1740824100
-- end_bucket = 1740909600
-- from_1 = 1740823620000
-- to_1 = 1740824100000
-- from_2 = 1740909600000
-- to_2 = 1740910020000
