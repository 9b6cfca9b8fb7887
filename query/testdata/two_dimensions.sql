-- from=2025-03-01&to=2025-03-02&dimension=source,props.plan&metrics=events,visitors&order=-source

-- counts from events
SELECT value, value_2, sumIf(n, view) AS views, sum(n) AS events, toInt64(count() OVER ()) AS total_rows
FROM
(
    SELECT toString(source) AS value, toString(props[{prop_1:String}]) AS value_2, name = 'pageview' AS view, n
    FROM events AS t
    WHERE site = {site:String}
        AND ts >= fromUnixTimestamp64Milli({raw_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_1_to:Int64}, 'UTC')
        AND name != 'engagement'
)
GROUP BY value, value_2
HAVING events != 0
ORDER BY value DESC, value_2
LIMIT {limit:UInt32} OFFSET {offset:UInt32}
-- site = example.com
-- raw_1_from = 1740787200000
-- raw_1_to = 1740960000000
-- prop_1 = plan
-- limit = 100
-- offset = 0

-- visitors from events
SELECT value, value_2, toInt64(uniqCombined64Merge(15)(state)) AS visitors
FROM
(
    SELECT toString(source) AS value, toString(props[{prop_1:String}]) AS value_2, uniqCombined64State(15)(t.visitor) AS state
    FROM events AS t
    WHERE site = {site:String}
        AND ts >= fromUnixTimestamp64Milli({raw_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_1_to:Int64}, 'UTC')
        AND has(arrayZip({values:Array(String)}, {values_2:Array(String)}), (source, props[{prop_1:String}]))
        AND name != 'engagement'
        AND visitor != 0
    GROUP BY value, value_2
)
GROUP BY value, value_2
-- site = example.com
-- raw_1_from = 1740787200000
-- raw_1_to = 1740960000000
-- values = [first value 1 second value 1]
-- values_2 = [first value 2 second value 2]
-- prop_1 = plan
