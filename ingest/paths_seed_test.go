package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"

	"github.com/pagetally/pagetally/schema"
	"github.com/pagetally/pagetally/schema/embedded/embeddedtest"
)

// The counter holds no more paths of a day than the site's limit, also when the server was started again in between.
func TestFoldedPathsInTheTables(t *testing.T) {
	conn := embeddedtest.Shared(t).Database(t)
	if _, err := schema.Migrate(t.Context(), conn, schema.Options{}); err != nil {
		t.Fatal(err)
	}
	send := func(server int, paths ...string) {
		r := limited(t, Limits{PerAddress: 1e6, PerSite: 1e6, NewPathsDay: 3})
		if err := r.server.seedPaths(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			r.beacon(202, fmt.Sprintf(`{"n":"pageview","u":"https://example.com%s","d":"example.com"}`, path))
		}
		store(t, conn, r.events(), fmt.Sprintf("batch-%d", server))
	}
	send(1, "/1", "/1", "/2")
	send(2, "/4", "/3", "/1", "/5", "/6")
	got := map[string]int64{}
	rows, err := conn.Query(t.Context(), "SELECT path_key, sum(n) FROM views WHERE site = 'example.com' GROUP BY path_key")
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		var path string
		var n int64
		if err := rows.Scan(&path, &n); err != nil {
			t.Fatal(err)
		}
		got[path] = n
	}
	if diff := cmp.Diff(map[string]int64{"/1": 3, "/2": 1, "/4": 1, FoldedPath: 3}, got); diff != "" || rows.Err() != nil {
		t.Error(diff, rows.Err())
	}
	var real uint64
	if err := conn.QueryRow(t.Context(), "SELECT uniqExact(path) FROM events").Scan(&real); err != nil || real != 6 {
		t.Errorf("%d paths among the events, %v; want all 6", real, err)
	}
}

func store(t *testing.T, conn driver.Conn, events []schema.Event, batch string) {
	t.Helper()
	var rows schema.Rows
	for i := range events {
		rows.Append(&events[i], batch, "")
	}
	ctx := clickhouse.Context(t.Context(), clickhouse.WithSettings(schema.InsertSettings(batch)))
	if err := rows.Insert(ctx, conn, schema.ToInbox); err != nil {
		t.Fatal(err)
	}
}

// While ClickHouse is away the paths are asked for again and again, until there is an answer or the end.
func TestSeedPathsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &awayConn{}
		s := &Server{now: time.Now, paths: newPathSet(maxPaths), refusals: &edgeLog{log: slog.New(slog.DiscardHandler)}}
		ctx, cancel := context.WithTimeout(t.Context(), 55*time.Second)
		defer cancel()
		if err := s.SeedPaths(ctx, conn); err != nil || conn.asked != 6 {
			t.Errorf("asked %d times in 55 seconds, %v; want 6", conn.asked, err)
		}
	})
}

// awayConn is a server that cannot be reached.
type awayConn struct {
	driver.Conn
	asked int
}

func (c *awayConn) Query(ctx context.Context, _ string, _ ...any) (driver.Rows, error) {
	c.asked++
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, errors.New("away")
}
