-- from=2025-03-01&to=2025-03-31&path=/a

-- counts from views
SELECT sumIf(n, view) AS views, sum(n) AS events
FROM
(
    SELECT name = 'pageview' AS view, n
    FROM views AS t FINAL
    WHERE site = {site:String}
        AND name = 'pageview'
        AND path_key = {path:String}
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC') AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
)
-- site = example.com
-- path = /a
-- first_bucket = 1740787200
-- end_bucket = 1743465600

-- visitors from dimensions
SELECT toInt64(uniqCombined64Merge(15)(state)) AS visitors
FROM
(
    SELECT t.visitors AS state
    FROM dimensions AS t
    WHERE site = {site:String}
        AND dimension = {dimension:String}
        AND kind IN ('pageview', 'event')
        AND value = {path:String}
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC') AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
)
-- site = example.com
-- dimension = path
-- path = /a
-- first_bucket = 1740787200
-- end_bucket = 1743465600
