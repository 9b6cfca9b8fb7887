-- from=2025-03-01&to=2025-03-31&dimension=path&name=signup

-- counts from views
SELECT value, sumIf(n, view) AS views, sum(n) AS events, toInt64(count() OVER ()) AS total_rows
FROM
(
    SELECT path_key AS value, name = 'pageview' AS view, n
    FROM views AS t FINAL
    WHERE site = {site:String}
        AND name = {name:String}
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC') AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
)
GROUP BY value
HAVING events != 0
ORDER BY events DESC, value
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
-- site = example.com
-- name = signup
-- first_bucket = 1740787200
-- end_bucket = 1743465600
-- limit = 100
-- offset = 0

-- visitors from events
SELECT value, toInt64(uniqCombined64Merge(15)(state)) AS visitors
FROM
(
    SELECT toString(path_key) AS value, uniqCombined64State(15)(t.visitor) AS state
    FROM events AS t
    WHERE site = {site:String}
        AND ts >= fromUnixTimestamp64Milli({raw_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_1_to:Int64}, 'UTC')
        AND path_key IN {values:Array(String)}
        AND name = {name:String}
        AND visitor != 0
    GROUP BY value
)
GROUP BY value
-- site = example.com
-- raw_1_from = 1740787200000
-- raw_1_to = 1743465600000
-- values = [first value 1 second value 1]
-- name = signup
