-- from=2025-03-01&to=2025-03-02&filters=%5B%5B%22or%22%2C%5B%5B%22matches%22%2C%22path%22%2C%5B%22%5E%2Fa%22%5D%5D%2C%5B%22contains%22%2C%22browser%22%2C%5B%22fire%22%5D%2C%7B%22case_sensitive%22%3Afalse%7D%5D%5D%5D%2C%5B%22not%22%2C%5B%22is%22%2C%22props.plan%22%2C%5B%22free%22%2C%22pro%22%5D%5D%5D%5D

-- counts from events
SELECT sumIf(n, view) AS views, sum(n) AS events
FROM
(
    SELECT name = 'pageview' AS view, n
    FROM events AS t
    WHERE site = {site:String}
        AND (((match(path_key, {filter_1:String})) OR arrayExists(v -> positionCaseInsensitiveUTF8(browser, v) > 0, {filter_2:Array(String)})) AND NOT props[{prop_1:String}] IN {filter_3:Array(String)})
        AND ts >= fromUnixTimestamp64Milli({raw_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_1_to:Int64}, 'UTC')
        AND name = 'pageview'
)
-- site = example.com
-- filter_1 = ^/a
-- filter_2 = [fire]
-- prop_1 = plan
-- filter_3 = [free pro]
-- raw_1_from = 1740787200000
-- raw_1_to = 1740960000000

-- visitors from events
SELECT toInt64(uniqCombined64Merge(15)(state)) AS visitors
FROM
(
    SELECT uniqCombined64State(15)(t.visitor) AS state
    FROM events AS t
    WHERE site = {site:String}
        AND (((match(path_key, {filter_1:String})) OR arrayExists(v -> positionCaseInsensitiveUTF8(browser, v) > 0, {filter_2:Array(String)})) AND NOT props[{prop_1:String}] IN {filter_3:Array(String)})
        AND ts >= fromUnixTimestamp64Milli({raw_1_from:Int64}, 'UTC') AND ts < fromUnixTimestamp64Milli({raw_1_to:Int64}, 'UTC')
        AND name != 'engagement'
        AND visitor != 0
)
-- site = example.com
-- filter_1 = ^/a
-- filter_2 = [fire]
-- prop_1 = plan
-- filter_3 = [free pro]
-- raw_1_from = 1740787200000
-- raw_1_to = 1740960000000
