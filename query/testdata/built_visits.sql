-- from=2025-03-01&to=2025-03-05&metrics=visits,bounce_rate

-- visits from visit_buckets
SELECT toInt64(sum(c)) AS visits, toInt64(sum(bounced)) AS bounces, toInt64(sum(duration)) AS duration_ms, toInt64(sum(v)) AS visit_views
FROM
(
    SELECT visits AS c, bounces AS bounced, duration_ms AS duration, views AS v
    FROM visit_buckets
    WHERE site = {site:String}
        AND day >= toDate({first_visits:UInt16}) AND day <= toDate({last_visits:UInt16})
        AND (toUInt16(day), build) IN (SELECT pair.1, pair.2 FROM (SELECT arrayJoin(arrayZip({visits_periods:Array(UInt16)}, {visits_builds:Array(UInt64)})) AS pair))
        AND bucket >= toDateTime({first_bucket:Int64}, 'UTC')
        AND bucket < toDateTime({end_bucket:Int64}, 'UTC')
)
-- first_bucket = 1740787200
-- end_bucket = 1741219200
-- site = example.com
-- first_visits = 20148
-- last_visits = 20152
-- visits_periods = [20148 20149 20150 20151 20152]
-- visits_builds = [100 101 102 103 104]
