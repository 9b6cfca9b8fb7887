-- from=2025-01-15&to=2025-03-05&metrics=views,visitors

-- counts from visitors
SELECT sumIf(n, view) AS views, sum(n) AS events
FROM
(
    SELECT name = 'pageview' AS view, n
    FROM period_visitors AS t
    WHERE site = {site:String}
        AND grain = 'month'
        AND name = 'pageview'
        AND period >= toDate({first_month:UInt16}) AND period <= toDate({last_month:UInt16})
        AND (toUInt16(period), build) IN (SELECT pair.1, pair.2 FROM (SELECT arrayJoin(arrayZip({month_periods:Array(UInt16)}, {month_builds:Array(UInt64)})) AS pair))
    UNION ALL
    SELECT name = 'pageview' AS view, n
    FROM period_visitors AS t
    WHERE site = {site:String}
        AND grain = 'day'
        AND name = 'pageview'
        AND period >= toDate({first_day:UInt16}) AND period <= toDate({last_day:UInt16})
        AND (toUInt16(period), build) IN (SELECT pair.1, pair.2 FROM (SELECT arrayJoin(arrayZip({day_periods:Array(UInt16)}, {day_builds:Array(UInt64)})) AS pair))
    UNION ALL
    SELECT name = 'pageview' AS view, n
    FROM visitors AS t FINAL
    WHERE site = {site:String}
        AND name = 'pageview'
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC') AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
)
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

-- visitors from visitors
SELECT toInt64(uniqCombined64Merge(17)(state)) AS visitors
FROM
(
    SELECT t.visitors AS state
    FROM period_visitors AS t
    WHERE site = {site:String}
        AND grain = 'month'
        AND name != 'engagement'
        AND period >= toDate({first_month:UInt16}) AND period <= toDate({last_month:UInt16})
        AND (toUInt16(period), build) IN (SELECT pair.1, pair.2 FROM (SELECT arrayJoin(arrayZip({month_periods:Array(UInt16)}, {month_builds:Array(UInt64)})) AS pair))
    UNION ALL
    SELECT t.visitors AS state
    FROM period_visitors AS t
    WHERE site = {site:String}
        AND grain = 'day'
        AND name != 'engagement'
        AND period >= toDate({first_day:UInt16}) AND period <= toDate({last_day:UInt16})
        AND (toUInt16(period), build) IN (SELECT pair.1, pair.2 FROM (SELECT arrayJoin(arrayZip({day_periods:Array(UInt16)}, {day_builds:Array(UInt64)})) AS pair))
    UNION ALL
    SELECT t.visitors AS state
    FROM visitors AS t
    WHERE site = {site:String}
        AND name != 'engagement'
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC') AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
)
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
