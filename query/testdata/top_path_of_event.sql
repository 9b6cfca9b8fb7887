-- from=2025-03-01&to=2025-03-31&dimension=path&name=signup

-- counts from views
SELECT value, sumIf(n, view) AS views, sum(n) AS events
FROM
(
    SELECT path_key AS value, name = 'pageview' AS view, n
    FROM views AS t FINAL
    WHERE site = {site:String}
        AND name = {name:String}
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC')
        AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
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
SELECT value, uniqCombined64Merge(15)(state) AS visitors
FROM
(
    SELECT toString(path_key) AS value, uniqCombined64State(15)(t.visitor) AS state
    FROM events AS t
    WHERE site = {site:String}
        AND name = {name:String}
        AND path_key IN {values:Array(String)}
        AND ts >= fromUnixTimestamp64Milli({from_1:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({to_1:Int64}, 'UTC')
        AND visitor != 0
    GROUP BY value
)
GROUP BY value
-- values = [first value second value]
-- site = example.com
-- name = signup
-- from_1 = 1740787200000
-- to_1 = 1743465600000
