package embedded_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/pagetally/pagetally/schema/embedded/embeddedtest"
)

// TestTornDeduplicationLogForgetsNoLaterToken: after a record torn by a kill, a token written next is still known at the
// start after that. Without the cut it would stand on the torn record's line, and its insert would count twice.
func TestTornDeduplicationLogForgetsNoLaterToken(t *testing.T) {
	dir := t.TempDir()
	server := embeddedtest.Start(t, embeddedtest.Options{Dir: dir})
	conn := open(t, server.Options(""))
	exec1(t, conn, "CREATE TABLE t (n Int64) ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 100")
	insert(t, conn, "first", 1)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	tearDeduplicationLog(t, dir)
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	insert(t, conn, "second", 2)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	insert(t, conn, "first", 1)
	insert(t, conn, "second", 2)
	var count uint64
	if err := conn.QueryRow(t.Context(), "SELECT count() FROM t").Scan(&count); err != nil || count != 2 {
		t.Errorf("rows = %d (%v), want 2: a repeated token counted twice", count, err)
	}
}

func insert(t *testing.T, conn driver.Conn, token string, n int64) {
	t.Helper()
	ctx := clickhouse.Context(t.Context(), clickhouse.WithSettings(clickhouse.Settings{
		"async_insert": 0, "insert_deduplicate": 1, "insert_deduplication_token": token,
	}))
	// The pool's connections ended with the killed engine: the first use of each may fail.
	waitFor(t, "answer to the insert", func() bool { return send(ctx, conn, n) == nil })
}

func send(ctx context.Context, conn driver.Conn, n int64) error {
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO t")
	if err != nil {
		return err
	}
	if err := batch.Append(n); err != nil {
		return err
	}
	return batch.Send()
}

// tearDeduplicationLog appends the beginning of a record, as a kill in the middle of a write leaves it.
func tearDeduplicationLog(t *testing.T, dir string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "data", "store", "*", "*", "deduplication_logs", "*.txt"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("deduplication logs: %v, %v, want one", logs, err)
	}
	text := readFile(t, logs[0])
	f, err := os.OpenFile(logs[0], os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text[:len(text)/2]); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
