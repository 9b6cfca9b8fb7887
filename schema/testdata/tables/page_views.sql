CREATE VIEW page_views
(
    `site` LowCardinality(String),
    `bucket` DateTime('UTC'),
    `path` String,
    `views` Int64
)
COMMENT 'Views by page and quarter of an hour (UTC): add them up'
AS SELECT
    site,
    bucket,
    path_key AS path,
    sum(n) AS views
FROM views
WHERE name = 'pageview'
GROUP BY
    site,
    bucket,
    path_key
