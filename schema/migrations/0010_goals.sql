ALTER TABLE {{table "sites"}}
    ADD COLUMN IF NOT EXISTS goals Array(String) COMMENT 'Names of events, and pages by /path, where * is any text without a slash and ** any text' AFTER ignore_countries;
