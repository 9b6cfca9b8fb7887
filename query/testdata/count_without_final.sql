-- from=2025-03-01&to=2025-03-31&final=0&metrics=views

-- counts from visitors
SELECT sumIf(n, view) AS views, sum(n) AS events
FROM
(
    SELECT name = 'pageview' AS view, n
    FROM visitors AS t
    WHERE site = {site:String}
        AND name = 'pageview'
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC') AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
)
-- site = example.com
-- first_bucket = 1740787200
-- end_bucket = 1743465600
