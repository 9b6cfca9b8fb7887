-- from=2025-03-01&to=2025-03-31&dimension=browser&metrics=visitors

-- visitors from dimensions
SELECT value, toInt64(uniqCombined64Merge(15)(state)) AS visitors, toInt64(count() OVER ()) AS total_rows
FROM
(
    SELECT value, t.visitors AS state
    FROM dimensions AS t
    WHERE site = {site:String}
        AND dimension = {dimension:String}
        AND kind IN ('pageview', 'event')
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC') AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
)
GROUP BY value
HAVING visitors != 0
ORDER BY visitors DESC, value
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
-- site = example.com
-- dimension = browser
-- first_bucket = 1740787200
-- end_bucket = 1743465600
-- limit = 100
-- offset = 0
