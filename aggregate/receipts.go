package aggregate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/oklog/ulid/v2"

	"github.com/pagetally/pagetally/ingest/journal"
)

// waiters are requests that wait for their segment to be stored.
type waiters struct {
	mu   sync.Mutex
	wait map[ulid.ULID]chan struct{}
}

func (w *waiters) on(segment ulid.ULID) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wait == nil {
		w.wait = make(map[ulid.ULID]chan struct{})
	}
	if w.wait[segment] == nil {
		w.wait[segment] = make(chan struct{})
	}
	return w.wait[segment]
}

func (w *waiters) done(segment ulid.ULID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ch := w.wait[segment]; ch != nil {
		close(ch)
		delete(w.wait, segment)
	}
}

// WaitStored returns nil once the segment's rows are counted (or set aside, as the ledger then says), or ctx's error.
func (d *Delivery) WaitStored(ctx context.Context, segment ulid.ULID) error {
	stored := d.waiters.on(segment)
	if !d.journal.Contains(segment) {
		d.waiters.done(segment)
		return nil
	}
	select {
	case <-stored:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// What became of a receipt's rows.
const (
	StatusPending     = "pending"
	StatusStored      = "stored"
	StatusQuarantined = "quarantined"
	StatusUnknown     = "unknown"
)

// Status says where the rows of a receipt are, by asking the own journal and then the ledger, which knows every node's segments.
func (d *Delivery) Status(ctx context.Context, node string, segment ulid.ULID, _ uint32, _ int) (string, error) {
	if node == d.node && d.journal.Contains(segment) {
		return StatusPending, nil
	}
	var state string
	err := d.conn.QueryRow(ctx, `SELECT toString(max(state)) FROM ledger WHERE batch >= {segment:String} AND has(segments, {segment:String}) HAVING count() > 0`,
		clickhouse.Named("segment", segment.String())).Scan(&state)
	switch {
	case isNoRows(err):
		return d.unlisted(segment), nil
	case err != nil:
		return "", fmt.Errorf("ask the ledger: %w", err)
	case state == "stored":
		return StatusStored, nil
	}
	return StatusPending, nil
}

// unlisted judges a segment that neither waits here nor stands in the ledger: damaged ones are set aside without an entry.
func (d *Delivery) unlisted(segment ulid.ULID) string {
	infos, err := d.journal.List(journal.StateQuarantined)
	if err == nil {
		for _, info := range infos {
			if info.ID == segment {
				return StatusQuarantined
			}
		}
	}
	return StatusUnknown
}

// AsOf is the receive time of the oldest acknowledged event that is not in ClickHouse yet; the zero time when there is none.
func (d *Delivery) AsOf() time.Time { return d.journal.Stats().Oldest }

// Pending counts the accepted rows that no ledger entry accounts for: those in the journal, less the ones that were accounted for when
// they were parked or quarantined.
func (d *Delivery) Pending() int64 {
	var rows int64
	for _, state := range []journal.State{journal.StateOpen, journal.StateSealed, journal.StateQuarantined} {
		infos, err := d.journal.List(state)
		if err != nil {
			continue
		}
		for _, info := range infos {
			if info.Kind == journal.KindLive {
				rows += int64(info.Rows)
			}
		}
	}
	return rows
}

// Drain returns nil once everything sealed is delivered, ctx's error at its end, and what delivery waits for if that lasts: a server
// that is gone will hardly come back for a process that is stopping.
func (d *Delivery) Drain(ctx context.Context) error {
	patience := d.now().Add(drainPatience)
	for {
		if stats := d.journal.Stats(); stats.SealedSegments == 0 {
			return nil
		}
		err := d.Ready()
		if err == nil {
			patience = d.now().Add(drainPatience)
		} else if d.now().After(patience) {
			return fmt.Errorf("drain: %w", err)
		}
		if err := d.pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

const drainPatience = 2 * time.Second
