-- metrics=views,visitors&from=2025-03-01T10:07:00Z&to=2025-03-02T10:07:00Z

-- counts from visitors
SELECT sumIf(n, view) AS views, sum(n) AS events
FROM
(
    SELECT name = 'pageview' AS view, n
    FROM visitors AS t FINAL
    WHERE site = {site:String}
        AND name = 'pageview'
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC') AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
    UNION ALL
    SELECT name = 'pageview' AS view, n
    FROM events AS t
    WHERE site = {site:String}
        AND ((ts >= fromUnixTimestamp64Milli({raw_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_1_to:Int64}, 'UTC')) OR (ts >= fromUnixTimestamp64Milli({raw_2_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_2_to:Int64}, 'UTC')))
        AND name = 'pageview'
)
-- site = example.com
-- first_bucket = 1740824100
-- end_bucket = 1740909600
-- raw_1_from = 1740823620000
-- raw_1_to = 1740824100000
-- raw_2_from = 1740909600000
-- raw_2_to = 1740910020000

-- visitors from visitors
SELECT toInt64(uniqCombined64Merge(17)(state)) AS visitors
FROM
(
    SELECT t.visitors AS state
    FROM visitors AS t
    WHERE site = {site:String}
        AND name != 'engagement'
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC') AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
    UNION ALL
    SELECT uniqCombined64State(17)(t.visitor) AS state
    FROM events AS t
    WHERE site = {site:String}
        AND ((ts >= fromUnixTimestamp64Milli({raw_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_1_to:Int64}, 'UTC')) OR (ts >= fromUnixTimestamp64Milli({raw_2_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_2_to:Int64}, 'UTC')))
        AND name != 'engagement'
        AND visitor != 0
)
-- site = example.com
-- first_bucket = 1740824100
-- end_bucket = 1740909600
-- raw_1_from = 1740823620000
-- raw_1_to = 1740824100000
-- raw_2_from = 1740909600000
-- raw_2_to = 1740910020000
