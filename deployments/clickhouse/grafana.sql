-- A user for Grafana's ClickHouse data source, or for people: it reads pagetally's tables and changes nothing.
-- The plugin sends max_execution_time with every query and ad hoc filters as additional_table_filters, so both must be changeable.
CREATE USER IF NOT EXISTS grafana IDENTIFIED BY 'PASSWORD'
    SETTINGS readonly = 1, max_execution_time CHANGEABLE_IN_READONLY, additional_table_filters CHANGEABLE_IN_READONLY;
GRANT SELECT ON pagetally.* TO grafana;
