package schema

import (
	"fmt"
	"runtime"
	"testing"
)

// reserveRows fills r with rows as they come in practice: most texts empty, some long.
func reserveRows(r *Rows, from, to int) {
	for i := from; i < to; i++ {
		e := Event{
			Site: "example.com", Name: PageView, TS: 1_700_000_000_000, ReceivedAt: 1_700_000_000_000, N: 1, Visitor: uint64(i),
			Path: fmt.Sprintf("/articles/%d/of-some-length", i), PathKey: fmt.Sprintf("/articles/%d/of-some-length", i),
			Props: []Prop{{Key: "n", Value: fmt.Sprint(i)}},
		}
		r.Append(&e, "batch", "")
	}
}

func TestReserveChangesNothingButAllocations(t *testing.T) {
	const total, chunk = 50_000, 1000
	conn := migratedDatabase(t)
	build := func(reserve bool) (allocated uint64) {
		ctx := t.Context()
		batch, err := ToInbox.Prepare(ctx, conn)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = batch.Close() }()
		var rows Rows
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for from := 0; from < total; from += chunk {
			reserveRows(&rows, from, from+chunk)
			if reserve && from == 0 {
				if err := rows.Reserve(batch, ToInbox, total); err != nil {
					t.Fatal(err)
				}
			}
			if err := rows.AppendTo(batch, ToInbox); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		if got := batch.Rows(); got != total {
			t.Fatalf("batch holds %d rows, want %d", got, total)
		}
		if err := batch.Send(); err != nil {
			t.Fatal(err)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	grown, reserved := build(false), build(true)
	if reserved*3 > grown*2 {
		t.Errorf("allocated %d bytes with room reserved, %d without: want less than two thirds", reserved, grown)
	}
	// The second block was told for the first one again, which it is only if it holds the very same.
	wantRows(t, conn, "SELECT count(), uniqExact(path), min(c) FROM (SELECT path, count() AS c FROM events WHERE path = path_key AND props['n'] != '' GROUP BY path)", "50000,50000,1")
}
