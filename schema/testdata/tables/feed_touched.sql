CREATE MATERIALIZED VIEW feed_touched TO touched
(
    `site` String,
    `day` Date,
    `changes` UInt64,
    `at` DateTime
)
AS SELECT
    place.1 AS site,
    place.2 AS day,
    count() AS changes,
    toDateTime(now()) AS at
FROM
(
    SELECT arrayJoin(touched) AS place
    FROM ledger
)
GROUP BY
    site,
    day
