package schema

import (
	"testing"
	"time"
)

func TestKeepEventIDs(t *testing.T) {
	conn := migratedDatabase(t)
	old := sample(1)
	old.ReceivedAt = time.Now().Add(-80 * time.Hour).UnixMilli()

	// It is past the three days of the migrations and within four.
	for range 2 {
		if err := KeepEventIDs(t.Context(), conn, 72*time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	insert(t, conn, "batch", []Event{old})
	exec(t, conn, "OPTIMIZE TABLE event_ids FINAL")
	wantRows(t, conn, "SELECT count() FROM event_ids", "1")

	if err := KeepEventIDs(t.Context(), conn, 24*time.Hour+time.Minute); err != nil {
		t.Fatal(err)
	}
	wantRows(t, conn, "SELECT extract(create_table_query, 'TTL (.*?) SETTINGS') FROM system.tables WHERE database = currentDatabase() AND name = 'event_ids'",
		"'toDateTime(received_at) + toIntervalHour(49)'")
	exec(t, conn, "TRUNCATE TABLE event_ids")
	insert(t, conn, "late batch", []Event{old})
	exec(t, conn, "OPTIMIZE TABLE event_ids FINAL")
	wantRows(t, conn, "SELECT count() FROM event_ids", "0")

	if err := KeepEventIDs(t.Context(), conn, 23*time.Hour); err == nil {
		t.Error("window of 23 h: got no error")
	}
}
