CREATE TABLE sites
(
    `domain` String COMMENT 'As events carry it',
    `hosts` Array(String) COMMENT 'Whose pages count; none: the domain, www. and its subdomains',
    `exact_hosts` UInt8 COMMENT '1: without subdomains',
    `zone` String COMMENT 'IANA name; empty: the zone of the server',
    `hash_routing` UInt8 COMMENT '1: the fragment names the page',
    `keep_query` Array(String) COMMENT 'Query parameters that name the page',
    `public` UInt8 COMMENT '1: read without a key',
    `badge` UInt8 COMMENT '1: shown as badges',
    `week_start` LowCardinality(String) COMMENT 'monday to sunday; empty: monday',
    `address_limit` Float64 COMMENT 'Beacons a second from one address; 0: the default',
    `site_limit` Float64 COMMENT 'Beacons a second; 0: the default',
    `path_limit` UInt32 COMMENT 'New paths a day; 0: the default',
    `retention_days` UInt32 COMMENT 'Older events are refused; 0: none',
    `respect_dnt` UInt8 COMMENT '1: views with DNT: 1 do not count',
    `respect_gpc` UInt8 COMMENT '1: views with Sec-GPC: 1 do not count',
    `ignore_addresses` Array(String) COMMENT 'Addresses and networks',
    `ignore_hosts` Array(String) COMMENT 'Also *.example.com',
    `ignore_paths` Array(String) COMMENT 'Globs of pages: * without a slash, ** any text',
    `ignore_countries` Array(String) COMMENT 'ISO 3166-1 alpha-2',
    `goals` Array(String) COMMENT 'Names of events, and pages by /path, where * is any text without a slash and ** any text',
    `created_at` DateTime64(3, 'UTC'),
    `updated_at` DateTime64(3, 'UTC'),
    `removed` UInt8
)
ENGINE = ReplacingMergeTree(updated_at)
ORDER BY domain
SETTINGS index_granularity = 8192
COMMENT 'Settings of sites, the newest row of a domain counts: read it with FINAL'
