package schema

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"
)

// noon is when the sample events happen, in Unix milliseconds: on a bucket's start.
var noon = time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC).UnixMilli()

// received is when they arrived: now, because event ids are kept for days only.
var received = time.Now().UnixMilli()

// migratedDatabase is a fresh database with all tables.
func migratedDatabase(t testing.TB) driver.Conn {
	t.Helper()
	conn := freshDatabase(t)
	if _, err := Migrate(t.Context(), conn, Options{}); err != nil {
		t.Fatal(err)
	}
	return conn
}

// sample is page view i of its kind: many pages, few of everything else.
func sample(i int) Event {
	return Event{
		Site: fmt.Sprintf("site%d.example", i%3), Name: PageView, Hostname: "www.example.com",
		Path: fmt.Sprintf("/page/%d", i%100), PathKey: fmt.Sprintf("/page/%d", i%100), Title: fmt.Sprintf("Page %d", i%100),
		Referrer: "https://search.example/", Source: "Search", Channel: "Organic Search", Country: "DE", Region: "DE-BE", City: "Berlin",
		Browser: "Firefox", BrowserVersion: "145", OS: "Linux", OSVersion: "6", Device: "Desktop", Screen: "1920x1080", Language: "de",
		EventID: fmt.Sprintf("id-%d", i), TS: noon + int64(i%1200)*1000, ReceivedAt: received,
		Visitor: uint64(i%50) + 1, N: 1, Scroll: NoScroll,
		Props: []Prop{{Key: "plan", Value: "free"}, {Key: "theme", Value: "dark"}},
	}
}

func samples(n int) []Event {
	events := make([]Event, n)
	for i := range events {
		events[i] = sample(i)
	}
	return events
}

// insert sends events as one batch, whose id is its token.
func insert(t testing.TB, conn driver.Conn, token string, events []Event) {
	t.Helper()
	var rows Rows
	for i := range events {
		rows.Append(&events[i], token, fmt.Sprintf("SEGMENT:%d", i))
	}
	ctx := clickhouse.Context(t.Context(), clickhouse.WithSettings(InsertSettings(token)))
	if err := rows.Insert(ctx, conn, ToInbox); err != nil {
		t.Fatal(err)
	}
}

// ask returns the rows of query, its columns joined by tabs.
func ask(t testing.TB, conn driver.Conn, query string) []string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT arrayStringConcat(arrayMap(x -> toString(x), [tuple(*)]), '') FROM ("+query+")")
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer func() { _ = rows.Close() }()
	var got []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.Trim(line, "()"))
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return got
}

func exec(t testing.TB, conn driver.Conn, statement string) {
	t.Helper()
	if err := conn.Exec(context.WithoutCancel(t.Context()), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func wantRows(t testing.TB, conn driver.Conn, query string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, ask(t, conn, query)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", query, diff)
	}
}
