-- What pagetally needs on a ClickHouse server of your own, version 26.7 or newer. Run it as an administrator, with another password:
--   clickhouse-client --multiquery < grants.sql
CREATE DATABASE IF NOT EXISTS pagetally;
CREATE USER IF NOT EXISTS pagetally IDENTIFIED BY 'PASSWORD';

-- Its tables: made, changed and filled by the server itself.
GRANT SELECT, INSERT, ALTER, CREATE DATABASE, CREATE TABLE, CREATE VIEW, DROP TABLE, DROP VIEW, TRUNCATE, OPTIMIZE ON pagetally.* TO pagetally;
GRANT TABLE ENGINE ON * TO pagetally;

-- After an insert of unknown outcome it waits until the query has left the server, and ends one that hangs.
GRANT SELECT ON system.processes TO pagetally;
GRANT KILL QUERY ON *.* TO pagetally;

-- What `pagetally doctor` looks at.
GRANT SELECT ON system.tables TO pagetally;
GRANT SELECT ON system.parts TO pagetally;
GRANT SELECT ON system.disks TO pagetally;
GRANT SELECT ON system.mutations TO pagetally;
GRANT SELECT ON system.replicas TO pagetally;
GRANT SELECT ON system.merge_tree_settings TO pagetally;
