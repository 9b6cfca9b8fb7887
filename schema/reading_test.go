package schema

import "testing"

// The views for Grafana and for people, on two days of one site.
func TestReadingViews(t *testing.T) {
	conn := migratedDatabase(t)
	stopMerges(t, conn)
	first, second, custom, ping := count("/a", 1), count("/a", 1), count("/b", 1), count("/b", 1)
	first.Visitor, second.Visitor, custom.Visitor, ping.Visitor = 1, 2, 2, 3
	second.TS += 15 * 60 * 1000
	custom.TS += 24 * 60 * 60 * 1000
	custom.Name, ping.Name = "signup", Engagement
	insert(t, conn, "batch-1", []Event{first, custom})
	insert(t, conn, "batch-2", []Event{second, ping})

	wantRows(t, conn, "SELECT site, toUnixTimestamp(bucket) - toUnixTimestamp('2025-03-01 12:00:00', 'UTC'), path, views FROM page_views ORDER BY bucket",
		"'a.example',0,'/a',1", "'a.example',900,'/a',1")
	wantRows(t, conn, "SELECT toUnixTimestamp(bucket) - toUnixTimestamp('2025-03-01 12:00:00', 'UTC') AS b, views, events, visitors FROM site_visitors ORDER BY b",
		"0,1,1,1", "900,1,1,1", "86400,0,1,1")
	wantRows(t, conn, "SELECT site, day, views, events, visitors FROM site_days ORDER BY day",
		"'a.example','2025-03-01',2,2,2", "'a.example','2025-03-02',0,1,1")
	wantRows(t, conn, "SELECT value, sum(views), sum(events) FROM dimension_values WHERE dimension = 'path' AND site = 'a.example' GROUP BY value ORDER BY value",
		"'/a',2,2", "'/b',0,1")
	wantRows(t, conn, "SELECT day, value, views, events, visitors FROM dimension_days WHERE dimension = 'path' ORDER BY day, value",
		"'2025-03-01','/a',2,2,2", "'2025-03-02','/b',0,1,1")

	// Only types that Grafana can draw: no aggregate states.
	wantRows(t, conn, `SELECT DISTINCT type FROM system.columns WHERE database = currentDatabase()
		AND table IN ('page_views', 'site_visitors', 'site_days', 'dimension_values', 'dimension_days') ORDER BY type`,
		"'Date'", "'DateTime(\\'UTC\\')'", "'Int64'", "'LowCardinality(String)'", "'String'", "'UInt64'")
}

// A filter on the views must reach the primary key of the table behind them.
func TestReadingViewsUseTheKey(t *testing.T) {
	conn := migratedDatabase(t)
	for i := range 2 {
		e := count("/a", 1)
		e.TS += int64(i) * 24 * 60 * 60 * 1000
		insert(t, conn, string(rune('a'+i)), []Event{e})
	}
	for view, column := range map[string]string{
		"page_views": "bucket", "site_visitors": "bucket", "site_days": "day", "dimension_values": "bucket", "dimension_days": "day",
	} {
		plan := ask(t, conn, "SELECT countIf(explain LIKE '%Keys:%') > 0, countIf(trim(explain) = 'bucket') > 0 FROM (EXPLAIN indexes = 1 SELECT * FROM "+view+
			" WHERE site = 'a.example' AND "+column+" >= toDateTime('2025-03-02 00:00:00', 'UTC'))")
		if plan[0] != "1,1" {
			t.Errorf("%s: the plan of a filter on %s has no key condition on bucket", view, column)
		}
	}
}
