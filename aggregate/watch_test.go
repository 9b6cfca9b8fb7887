package aggregate

import (
	"testing"

	"github.com/oklog/ulid/v2"

	"github.com/pagetally/pagetally/ingest/journal"
)

// watcher notes what becomes of segments, and whether the tables held rows when a segment was said to be sent.
type watcher struct {
	r        *rig
	sending  map[ulid.ULID]uint64
	settled  []ulid.ULID
	storedAt []uint64
}

func (w *watcher) rows() (n uint64) {
	if err := w.r.conn.QueryRow(w.r.t.Context(), "SELECT count() FROM events").Scan(&n); err != nil {
		w.r.t.Error(err)
	}
	return n
}

func (w *watcher) Sending(segment ulid.ULID) { w.sending[segment] = w.rows() }

func (w *watcher) Settled(segment ulid.ULID) {
	w.settled = append(w.settled, segment)
	w.storedAt = append(w.storedAt, w.rows())
}

// A watcher hears of each segment before its rows are sent and after they are stored.
func TestWatcherHearsOfEachSegment(t *testing.T) {
	r := newRig(t)
	r.count(r.event(), r.event())
	r.seal()
	r.count(r.event())
	r.seal()
	infos, err := r.journal.List(journal.StateSealed)
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{r: r, sending: map[ulid.ULID]uint64{}}
	r.deliver(func(c *Config) { c.Watch = w })
	if len(w.settled) != len(infos) || len(w.sending) != len(infos) {
		t.Fatalf("%d sent, %d settled, want %d each", len(w.sending), len(w.settled), len(infos))
	}
	for i, info := range infos {
		if rows, ok := w.sending[info.ID]; !ok || rows != 0 || w.settled[i] != info.ID || w.storedAt[i] != 3 {
			t.Errorf("segment %d: %d rows when sent (%t), settled with %d", i, rows, ok, w.storedAt[i])
		}
	}
}
