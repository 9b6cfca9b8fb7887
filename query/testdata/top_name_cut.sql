-- dimension=name&from=2025-03-01T10:07:00Z&to=2025-03-02T10:07:00Z

-- counts from visitors
SELECT value, sumIf(n, view) AS views, sum(n) AS events, toInt64(count() OVER ()) AS total_rows
FROM
(
    SELECT name AS value, name = 'pageview' AS view, n
    FROM visitors AS t FINAL
    WHERE site = {site:String}
        AND name != 'engagement'
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC') AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
    UNION ALL
    SELECT toString(name) AS value, name = 'pageview' AS view, n
    FROM events AS t
    WHERE site = {site:String}
        AND ((ts >= fromUnixTimestamp64Milli({raw_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_1_to:Int64}, 'UTC')) OR (ts >= fromUnixTimestamp64Milli({raw_2_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_2_to:Int64}, 'UTC')))
        AND name != 'engagement'
)
GROUP BY value
HAVING events != 0
ORDER BY events DESC, value
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
-- site = example.com
-- first_bucket = 1740824100
-- end_bucket = 1740909600
-- raw_1_from = 1740823620000
-- raw_1_to = 1740824100000
-- raw_2_from = 1740909600000
-- raw_2_to = 1740910020000
-- limit = 100
-- offset = 0

-- visitors from visitors
SELECT value, toInt64(uniqCombined64Merge(17)(state)) AS visitors
FROM
(
    SELECT name AS value, t.visitors AS state
    FROM visitors AS t
    WHERE site = {site:String}
        AND name != 'engagement'
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC') AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
        AND name IN {values:Array(String)}
    UNION ALL
    SELECT toString(name) AS value, uniqCombined64State(17)(t.visitor) AS state
    FROM events AS t
    WHERE site = {site:String}
        AND ((ts >= fromUnixTimestamp64Milli({raw_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_1_to:Int64}, 'UTC')) OR (ts >= fromUnixTimestamp64Milli({raw_2_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_2_to:Int64}, 'UTC')))
        AND name IN {values:Array(String)}
        AND name != 'engagement'
        AND visitor != 0
    GROUP BY value
)
GROUP BY value
-- site = example.com
-- first_bucket = 1740824100
-- end_bucket = 1740909600
-- values = [first value 1 second value 1]
-- raw_1_from = 1740823620000
-- raw_1_to = 1740824100000
-- raw_2_from = 1740909600000
-- raw_2_to = 1740910020000
