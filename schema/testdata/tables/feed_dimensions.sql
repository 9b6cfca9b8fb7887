CREATE MATERIALIZED VIEW feed_dimensions TO dimensions
(
    `site` String,
    `dimension` String,
    `kind` String,
    `bucket` DateTime('UTC'),
    `value` String,
    `job` String,
    `n` Int64,
    `visitors` AggregateFunction(uniqCombined64(15), UInt64)
)
AS SELECT
    site,
    multiIf(grouping(path_key) = 0, 'path', grouping(title) = 0, 'title', grouping(source) = 0, 'source', grouping(channel) = 0, 'channel', grouping(referrer) = 0, 'referrer', grouping(utm_source) = 0, 'utm_source', grouping(utm_medium) = 0, 'utm_medium', grouping(utm_campaign) = 0, 'utm_campaign', grouping(utm_content) = 0, 'utm_content', grouping(utm_term) = 0, 'utm_term', grouping(country) = 0, 'country', grouping(region) = 0, 'region', grouping(city) = 0, 'city', grouping(browser) = 0, 'browser', grouping(browser_version) = 0, 'browser_version', grouping(os) = 0, 'os', grouping(os_version) = 0, 'os_version', grouping(device) = 0, 'device', grouping(screen) = 0, 'screen', grouping(language) = 0, 'language', grouping(hostname) = 0, 'hostname', grouping(name) = 0, 'name', '') AS dimension,
    kind,
    bucket,
    concat(path_key, title, source, channel, referrer, utm_source, utm_medium, utm_campaign, utm_content, utm_term, country, region, city, browser, browser_version, os, os_version, device, screen, language, hostname, name) AS value,
    job,
    sum(n) AS n,
    uniqCombined64StateIf(15)(visitor, visitor != 0) AS visitors
FROM
(
    SELECT
        site,
        if(name = 'pageview', 'pageview', 'event') AS kind,
        toStartOfFifteenMinutes(toDateTime(ts, 'UTC')) AS bucket,
        job,
        n,
        visitor,
        path_key,
        title,
        source,
        channel,
        referrer,
        utm_source,
        utm_medium,
        utm_campaign,
        utm_content,
        utm_term,
        country,
        region,
        city,
        browser,
        browser_version,
        os,
        os_version,
        device,
        screen,
        language,
        hostname,
        name
    FROM inbox
    WHERE name != 'engagement'
)
GROUP BY
    GROUPING SETS (
        (site, kind, bucket, job, path_key),
        (site, kind, bucket, job, title),
        (site, kind, bucket, job, source),
        (site, kind, bucket, job, channel),
        (site, kind, bucket, job, referrer),
        (site, kind, bucket, job, utm_source),
        (site, kind, bucket, job, utm_medium),
        (site, kind, bucket, job, utm_campaign),
        (site, kind, bucket, job, utm_content),
        (site, kind, bucket, job, utm_term),
        (site, kind, bucket, job, country),
        (site, kind, bucket, job, region),
        (site, kind, bucket, job, city),
        (site, kind, bucket, job, browser),
        (site, kind, bucket, job, browser_version),
        (site, kind, bucket, job, os),
        (site, kind, bucket, job, os_version),
        (site, kind, bucket, job, device),
        (site, kind, bucket, job, screen),
        (site, kind, bucket, job, language),
        (site, kind, bucket, job, hostname),
        (site, kind, bucket, job, name))
