-- from=2025-03-01&to=2025-03-31&dimension=path&limit=10&page=3

-- counts from views
SELECT value, sumIf(n, view) AS views, sum(n) AS events, toInt64(count() OVER ()) AS total_rows
FROM
(
    SELECT path_key AS value, name = 'pageview' AS view, n
    FROM views AS t FINAL
    WHERE site = {site:String}
        AND name = 'pageview'
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC') AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
)
GROUP BY value
HAVING views != 0
ORDER BY views DESC, value
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
-- site = example.com
-- first_bucket = 1740787200
-- end_bucket = 1743465600
-- limit = 10
-- offset = 20

-- visitors from dimensions
SELECT value, toInt64(uniqCombined64Merge(15)(state)) AS visitors
FROM
(
    SELECT value, t.visitors AS state
    FROM dimensions AS t
    WHERE site = {site:String}
        AND dimension = {dimension:String}
        AND kind IN ('pageview', 'event')
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC') AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
        AND value IN {values:Array(String)}
)
GROUP BY value
-- site = example.com
-- dimension = path
-- first_bucket = 1740787200
-- end_bucket = 1743465600
-- values = [first value 1 second value 1]
