-- from=2025-01-15&to=2025-03-05&dimension=path

-- counts from views
SELECT value, sumIf(n, view) AS views, sum(n) AS events, toInt64(count() OVER ()) AS total_rows
FROM
(
    SELECT path_key AS value, name = 'pageview' AS view, n
    FROM period_views AS t
    WHERE site = {site:String}
        AND grain = 'month'
        AND name = 'pageview'
        AND period >= toDate({first_month:UInt16}) AND period <= toDate({last_month:UInt16})
        AND (toUInt16(period), build) IN (SELECT pair.1, pair.2 FROM (SELECT arrayJoin(arrayZip({month_periods:Array(UInt16)}, {month_builds:Array(UInt64)})) AS pair))
    UNION ALL
    SELECT path_key AS value, name = 'pageview' AS view, n
    FROM period_views AS t
    WHERE site = {site:String}
        AND grain = 'day'
        AND name = 'pageview'
        AND period >= toDate({first_day:UInt16}) AND period <= toDate({last_day:UInt16})
        AND (toUInt16(period), build) IN (SELECT pair.1, pair.2 FROM (SELECT arrayJoin(arrayZip({day_periods:Array(UInt16)}, {day_builds:Array(UInt64)})) AS pair))
    UNION ALL
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
-- first_month = 20120
-- last_month = 20120
-- month_periods = [20120]
-- month_builds = [7]
-- first_day = 20148
-- last_day = 20152
-- day_periods = [20148 20149 20150 20151 20152]
-- day_builds = [100 101 102 103 104]
-- first_bucket = 1736899200
-- end_bucket = 1738368000
-- limit = 100
-- offset = 0

-- visitors from dimensions
SELECT value, toInt64(uniqCombined64Merge(15)(state)) AS visitors
FROM
(
    SELECT value, t.visitors AS state
    FROM period_dimensions AS t
    WHERE site = {site:String}
        AND grain = 'month'
        AND dimension = {dimension:String}
        AND kind IN ('pageview', 'event')
        AND period >= toDate({first_month:UInt16}) AND period <= toDate({last_month:UInt16})
        AND (toUInt16(period), build) IN (SELECT pair.1, pair.2 FROM (SELECT arrayJoin(arrayZip({month_periods:Array(UInt16)}, {month_builds:Array(UInt64)})) AS pair))
        AND value IN {values:Array(String)}
    UNION ALL
    SELECT value, t.visitors AS state
    FROM period_dimensions AS t
    WHERE site = {site:String}
        AND grain = 'day'
        AND dimension = {dimension:String}
        AND kind IN ('pageview', 'event')
        AND period >= toDate({first_day:UInt16}) AND period <= toDate({last_day:UInt16})
        AND (toUInt16(period), build) IN (SELECT pair.1, pair.2 FROM (SELECT arrayJoin(arrayZip({day_periods:Array(UInt16)}, {day_builds:Array(UInt64)})) AS pair))
        AND value IN {values:Array(String)}
    UNION ALL
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
-- first_month = 20120
-- last_month = 20120
-- month_periods = [20120]
-- month_builds = [7]
-- values = [first value 1 second value 1]
-- first_day = 20148
-- last_day = 20152
-- day_periods = [20148 20149 20150 20151 20152]
-- day_builds = [100 101 102 103 104]
-- first_bucket = 1736899200
-- end_bucket = 1738368000
