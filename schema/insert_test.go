package schema

import (
	"fmt"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"
)

// sums describes what every target holds: rows or counts, and visitors where there are any.
func sums(t *testing.T, conn driver.Conn) map[string]string {
	t.Helper()
	got := make(map[string]string)
	for name, query := range map[string]string{
		"events":     "SELECT count(), sum(n) FROM events",
		"event_ids":  "SELECT count(), uniqExact(id) FROM event_ids",
		"views":      "SELECT sum(n) FROM views",
		"visitors":   "SELECT sum(n), uniqCombined64Merge(17)(visitors) FROM visitors",
		"dimensions": "SELECT uniqExact(dimension), min(s), max(s), min(u), max(u) FROM (SELECT dimension, sum(n) AS s, uniqCombined64Merge(15)(visitors) AS u FROM dimensions GROUP BY dimension)",
	} {
		got[name] = ask(t, conn, query)[0]
	}
	return got
}

func TestTokenCountsOnce(t *testing.T) {
	conn := migratedDatabase(t)
	events := samples(100)
	want := map[string]string{
		"events": "100,100", "event_ids": "100,100", "views": "100", "visitors": "100,50", "dimensions": "22,100,100,50,50",
	}
	for try := range 3 {
		insert(t, conn, "batch-1", events)
		if diff := cmp.Diff(want, sums(t, conn)); diff != "" {
			t.Fatalf("try %d (-want +got):\n%s", try+1, diff)
		}
	}

	// Equal rows in another batch are other events.
	for i := range events {
		events[i].EventID = fmt.Sprintf("other-%d", i)
	}
	insert(t, conn, "batch-2", events)
	want = map[string]string{
		"events": "200,200", "event_ids": "200,200", "views": "200", "visitors": "200,50", "dimensions": "22,200,200,50,50",
	}
	if diff := cmp.Diff(want, sums(t, conn)); diff != "" {
		t.Errorf("equal rows, new token (-want +got):\n%s", diff)
	}
	exec(t, conn, "OPTIMIZE TABLE dimensions FINAL")
	if diff := cmp.Diff(want, sums(t, conn)); diff != "" {
		t.Errorf("after a merge (-want +got):\n%s", diff)
	}
}

func TestEventIsStoredWhole(t *testing.T) {
	conn := migratedDatabase(t)
	e := sample(7)
	for i, column := range stringColumns {
		*column.of(&e) = fmt.Sprintf("%s-%d", column.name, i)
	}
	e.Namespace, e.N, e.EngagedMS, e.Scroll, e.Flags = "key", -3, 1500, 70, FlagTimeReplaced|FlagPathFolded
	insert(t, conn, "batch", []Event{e})

	for _, column := range stringColumns {
		wantRows(t, conn, "SELECT "+column.name+" FROM events", "'"+*column.of(&e)+"'")
	}
	wantRows(t, conn, "SELECT toUnixTimestamp64Milli(ts), toUnixTimestamp64Milli(received_at), visitor, n, engaged_ms, scroll, flags, props['plan'], props['theme'], batch FROM events",
		fmt.Sprintf("%d,%d,8,-3,1500,70,5,'free','dark','batch'", e.TS, e.ReceivedAt))
	hash, _ := e.IDHash()
	wantRows(t, conn, "SELECT lower(hex(id)), site, owner, content FROM event_ids",
		fmt.Sprintf("'%x','site-0','SEGMENT:0',%d", hash, e.ContentHash()))
}

func TestDimensionsHoldTheirColumns(t *testing.T) {
	conn := migratedDatabase(t)
	view, custom, ping, silent := sample(1), sample(2), sample(3), sample(4)
	custom.Name, ping.Name = "signup", Engagement
	view.Site, custom.Site, ping.Site, silent.Site = "a", "a", "a", "a"
	for _, e := range []*Event{&view, &custom, &ping, &silent} {
		e.UTMSource, e.UTMMedium, e.UTMCampaign, e.UTMContent, e.UTMTerm = "s", "m", "c", "co", "te"
	}
	// Nothing is known of the last one but its page; its visitor is nobody.
	silent = Event{Site: "a", Name: PageView, Path: "/", PathKey: "(other)", TS: noon, ReceivedAt: noon, N: 1}
	insert(t, conn, "batch", []Event{view, custom, ping, silent})

	for _, dimension := range Dimensions() {
		column := DimensionColumn(dimension)
		want := ask(t, conn, `SELECT if(name = 'pageview', 'pageview', 'event') AS kind, `+column+`, sum(n), uniqIf(visitor, visitor != 0)
			FROM events WHERE name != 'engagement' GROUP BY ALL ORDER BY ALL`)
		wantRows(t, conn, `SELECT kind, value, sum(n), uniqCombined64Merge(15)(visitors)
			FROM dimensions WHERE dimension = '`+dimension+`' GROUP BY ALL ORDER BY ALL`, want...)
		if len(want) < 2 {
			t.Errorf("%s: %d rows in events, the test compares nothing", dimension, len(want))
		}
	}
	wantRows(t, conn, "SELECT name, sum(n) FROM views GROUP BY name ORDER BY name", "'engagement',1", "'pageview',2", "'signup',1")
	wantRows(t, conn, "SELECT name, uniqCombined64Merge(17)(visitors) FROM visitors GROUP BY name ORDER BY name",
		"'engagement',1", "'pageview',1", "'signup',1")
}

// A block must reach every table as one part a partition, or a retry that is cut elsewhere would lose or double rows.
func TestBlockStaysWhole(t *testing.T) {
	for _, rows := range []int{100_000, 500_000} {
		t.Run(fmt.Sprint(rows), func(t *testing.T) {
			conn := migratedDatabase(t)
			stopMerges(t, conn)
			events := samples(rows)
			for i := range events {
				// Three dimensions with a value of its own for each row: more rows behind the view than in front of it, and more
				// than a block has by default.
				events[i].PathKey = fmt.Sprintf("/own/%d", i)
				events[i].Title = fmt.Sprintf("Own %d", i)
				events[i].Referrer = fmt.Sprintf("https://own.example/%d", i)
				events[i].Props = nil // only to take less time
			}
			insert(t, conn, "batch", events)
			wantRows(t, conn, partCounts, "'dimensions',1,1", "'event_ids',1,1", "'events',1,1", "'views',1,1", "'visitors',1,1")
			wantRows(t, conn, "SELECT sum(n) FROM views", fmt.Sprint(rows))
			wantRows(t, conn, "SELECT sum(n) FROM dimensions WHERE dimension = 'title'", fmt.Sprint(rows))
		})
	}
}

func TestTwoYearsInOneBlock(t *testing.T) {
	conn := migratedDatabase(t)
	stopMerges(t, conn)
	const months = 24
	events := samples(months * 10)
	for i := range events {
		events[i].TS = time.UnixMilli(noon).AddDate(0, i%months, 0).UnixMilli()
	}
	for range 2 {
		insert(t, conn, "batch", events)
	}
	wantRows(t, conn, partCounts,
		"'dimensions',24,1", "'event_ids',1,1", "'events',24,1", "'views',24,1", "'visitors',24,1")
	wantRows(t, conn, "SELECT sum(n) FROM views", "240")
}

// partCounts lists for each target how many partitions it has and the most parts that one of them has.
const partCounts = `SELECT table, count(), max(parts) FROM (
	SELECT table, partition, count() AS parts FROM system.parts
	WHERE database = currentDatabase() AND active AND table != 'migrations' GROUP BY ALL
) GROUP BY table ORDER BY table`

func stopMerges(t *testing.T, conn driver.Conn) {
	t.Helper()
	for _, target := range Targets() {
		exec(t, conn, "SYSTEM STOP MERGES "+target.Table)
	}
}
