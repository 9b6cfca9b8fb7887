-- from=2025-03-01&to=2025-03-31&name=signup&path=/a

-- counts from views
SELECT sumIf(n, view) AS views, sum(n) AS events
FROM
(
    SELECT name = 'pageview' AS view, n
    FROM views AS t FINAL
    WHERE site = {site:String}
        AND name = {name:String}
        AND path_key = {path:String}
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC') AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
)
-- site = example.com
-- name = signup
-- path = /a
-- first_bucket = 1740787200
-- end_bucket = 1743465600

-- visitors from events
SELECT toInt64(uniqCombined64Merge(15)(state)) AS visitors
FROM
(
    SELECT uniqCombined64State(15)(t.visitor) AS state
    FROM events AS t
    WHERE site = {site:String}
        AND path_key = {path:String}
        AND ts >= fromUnixTimestamp64Milli({raw_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_1_to:Int64}, 'UTC')
        AND name = {name:String}
        AND visitor != 0
)
-- site = example.com
-- path = /a
-- raw_1_from = 1740787200000
-- raw_1_to = 1743465600000
-- name = signup
