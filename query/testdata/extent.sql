SELECT count() AS found, toInt64(toUnixTimestamp(min(bucket))) AS first
FROM visitors
WHERE site = {site:String}
-- site = example.com
