SELECT sum(n) AS views
FROM views
WHERE site = {site:String} AND name = {name:String} AND path_key = {path:String}
-- site = example.com
-- name = pageview
-- path = /a
