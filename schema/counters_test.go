package schema

import (
	"testing"
	"time"
)

// count is an event that adds n to one page at one time.
func count(path string, n int64) Event {
	e := sample(0)
	e.Site, e.Path, e.PathKey, e.N, e.EventID = "a.example", path, path, n, ""
	return e
}

func TestCountersAddUpBeforeAndAfterMerges(t *testing.T) {
	custom := count("/seen-only", 1)
	custom.Name = "signup"
	tests := map[string]struct {
		batches [][]Event
		want    []string // page, views; pages at zero left out
	}{
		"one key in two parts": {
			batches: [][]Event{{count("/a", 1)}, {count("/a", 2)}},
			want:    []string{"'/a',3"},
		},
		"corrected to zero": {
			batches: [][]Event{{count("/a", 10), count("/b", 5)}, {count("/a", -10)}},
			want:    []string{"'/b',5"},
		},
		"corrected below": {
			batches: [][]Event{{count("/a", 10)}, {count("/a", -3)}},
			want:    []string{"'/a',7"},
		},
		"corrected below zero and in one block": {
			batches: [][]Event{{count("/a", 10), count("/a", -12)}},
			want:    []string{"'/a',-2"},
		},
		"beyond a narrow integer": {
			batches: [][]Event{many("/a", 300, 1)},
			want:    []string{"'/a',300"},
		},
		"beyond 32 bits": {
			batches: [][]Event{many("/a", 6, MaxN), many("/b", 6, -MaxN)},
			want:    []string{"'/a',6000000000", "'/b',-6000000000"},
		},
		"only custom events": {
			batches: [][]Event{{custom}, {count("/seen-only", 4), count("/seen-only", -4)}},
		},
	}
	conn := migratedDatabase(t)
	stopMerges(t, conn)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var total int64
			for i, batch := range test.batches {
				insert(t, conn, name+string(rune('0'+i)), batch)
				for _, e := range batch {
					total += e.N
				}
			}
			check := func(when string) {
				t.Run(when, func(t *testing.T) {
					for _, final := range []string{"", " FINAL"} {
						wantRows(t, conn, "SELECT path_key, sum(n) AS s FROM views"+final+" WHERE name = 'pageview' GROUP BY path_key HAVING s != 0 ORDER BY path_key", test.want...)
						for _, table := range []string{"views", "visitors"} {
							wantRows(t, conn, "SELECT sum(n) FROM "+table+final, ask(t, conn, "SELECT sum(n) FROM events")...)
						}
						wantRows(t, conn, "SELECT sum(n) FROM dimensions"+final+" WHERE dimension = 'os'", ask(t, conn, "SELECT sum(n) FROM events")...)
					}
					wantRows(t, conn, "SELECT path, views FROM page_views WHERE views != 0 ORDER BY path", test.want...)
				})
			}
			check("before a merge")
			for _, table := range []string{"views", "visitors", "dimensions"} {
				exec(t, conn, "SYSTEM START MERGES "+table)
				exec(t, conn, "OPTIMIZE TABLE "+table+" FINAL")
				exec(t, conn, "SYSTEM STOP MERGES "+table)
			}
			check("after a merge")
			// The page is still known by its custom event, although its views vanished.
			if name == "only custom events" {
				wantRows(t, conn, "SELECT value, sum(n) FROM dimensions WHERE dimension = 'path' AND kind = 'event' GROUP BY value", "'/seen-only',1")
			}
			for _, target := range Targets() {
				exec(t, conn, "TRUNCATE TABLE "+target.Table)
			}
		})
	}
}

// many is n single counts of one page within a bucket.
func many(path string, times int, n int64) []Event {
	events := make([]Event, times)
	for i := range events {
		events[i] = count(path, n)
		events[i].TS += int64(i) * 1000
	}
	return events
}

func TestBucketsAreQuarterHoursOfUTC(t *testing.T) {
	conn := migratedDatabase(t)
	var events []Event
	for _, at := range []string{"11:59:59.999", "12:00:00.000", "12:14:59.999", "12:15:00.000"} {
		when, err := time.Parse("2006-01-02 15:04:05", "2025-03-01 "+at)
		if err != nil {
			t.Fatal(err)
		}
		e := count("/", 1)
		e.TS = when.UnixMilli()
		events = append(events, e)
	}
	insert(t, conn, "batch", events)
	for _, table := range []string{"views", "visitors", "dimensions"} {
		wantRows(t, conn, "SELECT formatDateTime(bucket, '%H:%i', 'UTC') AS b, count() > 0 FROM "+table+" GROUP BY b ORDER BY b",
			"'11:45',1", "'12:00',1", "'12:15',1")
	}
	wantRows(t, conn, "SELECT formatDateTime(bucket, '%H:%i', 'UTC'), sum(n) FROM views GROUP BY bucket ORDER BY bucket",
		"'11:45',1", "'12:00',2", "'12:15',1")
}
