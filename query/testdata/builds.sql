SELECT kind, first_day, build, start, stop, changes
FROM
(
    SELECT toUInt8(grain) AS kind, toUInt16(period) AS first_day, build, toInt64(toUnixTimestamp(b.from)) AS start, toInt64(toUnixTimestamp(b.to)) AS stop, changes
    FROM builds AS b FINAL
    WHERE site = {site:String} AND build != 0 AND b.to > fromUnixTimestamp({from:Int64}) AND b.from < fromUnixTimestamp({to:Int64})
    UNION ALL
    SELECT toUInt8(0), toUInt16(day), toUInt64(0), toInt64(0), toInt64(0), sum(touched.changes)
    FROM touched
    WHERE site = {site:String} AND day >= {first:Date} AND day <= {last:Date}
    GROUP BY day
)
ORDER BY kind, start
-- site = example.com
-- from = 1740787200
-- to = 1740873600
-- first = 2025-01-28
-- last = 2025-04-03
