package aggregate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pagetally/pagetally/schema"
)

func TestDeliverCountsEveryEventOnce(t *testing.T) {
	r := newRig(t)
	for range 500 {
		r.count(r.event())
	}
	equal := r.event()
	r.count(equal, equal, equal) // no ids: equal events are events of their own
	r.seal()
	r.deliver()
	r.requireExact()
	r.requireBalanced(503)
	if files, _ := r.journal.ListFiles(decisionsDir); len(files) != 0 {
		t.Errorf("files left behind: %v", files)
	}
}

func TestEqualBatchesBothCount(t *testing.T) {
	r := newRig(t)
	e := r.event()
	for range 3 {
		r.count(e, e)
		r.seal()
		r.deliver()
	}
	r.requireExact()
}

func TestRepeatedIDsCountOnce(t *testing.T) {
	r := newRig(t)
	withID := func(id string) schema.Event {
		e := r.event()
		e.EventID = id
		return e
	}
	first := withID("a")
	r.count(first)
	r.append(first) // same segment
	r.seal()
	r.append(first) // another segment of the same group
	r.count(withID("b"))
	r.seal()
	r.deliver()
	r.append(first) // after it was stored
	r.seal()
	r.deliver()
	// Another process knows the id from the table alone.
	r.close()
	r.open(journalOptions())
	r.append(first)
	other := first
	other.Namespace = "key-1"
	r.count(other) // the same id from somebody else is another event
	other.Site = "another.example"
	r.count(other)
	r.seal()
	r.deliver()
	r.requireExact()
	r.requireBalanced(8)
}

func TestForgottenClaimsAreFoundInTheTable(t *testing.T) {
	r := newRig(t)
	claims := NewMemoryClaims(r.conn, 48*time.Hour, 10)
	with := func(c *Config) { c.Claims = claims }
	var events []schema.Event
	for i := range 40 {
		e := r.event()
		e.EventID = fmt.Sprint("id-", i)
		events = append(events, e)
	}
	r.count(events...)
	r.seal()
	r.deliver(with)
	if len(claims.held) > 10 {
		t.Fatalf("%d claims held, limit 10", len(claims.held))
	}
	r.append(events...)
	r.seal()
	r.deliver(with)
	r.requireExact()
}

func TestRowsOfManyMonthsAreCut(t *testing.T) {
	r := newRig(t)
	for month := range 30 {
		e := r.event()
		e.TS = time.Date(2022, time.Month(1+month), 3, 4, 5, 6, 0, time.UTC).UnixMilli()
		r.count(e, e)
	}
	r.seal()
	r.deliver()
	r.requireExact()
	var batches uint64
	r.scan(`SELECT uniqExact(batch) FROM events`, &batches)
	if batches != 2 {
		t.Errorf("%d batches, want 2 of at most %d months", batches, maxMonths)
	}
}

func TestWaitStoredReturnsWhenCounted(t *testing.T) {
	r := newRig(t)
	e := r.event()
	e.PathKey = e.Path
	position, err := r.journal.Append(t.Context(), e.AppendTo(nil), 1)
	if err != nil {
		t.Fatal(err)
	}
	r.want[e.Path] = 1
	d, stop := r.start()
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if got, err := d.Status(ctx, r.journal.Node(), position.Segment, 0, 1); got != StatusPending && got != StatusStored {
		t.Errorf("status %q, %v before it is stored", got, err)
	}
	if err := d.WaitStored(ctx, position.Segment); err != nil {
		t.Fatalf("wait: %v", err)
	}
	r.requireExact()
	if got, err := d.Status(ctx, r.journal.Node(), position.Segment, 0, 1); got != StatusStored || err != nil {
		t.Errorf("status %q, %v, want stored", got, err)
	}
	if got, err := d.Status(ctx, "elsewhere", d.newID(), 0, 1); got != StatusUnknown || err != nil {
		t.Errorf("status of an unknown segment: %q, %v", got, err)
	}
	if !d.AsOf().IsZero() || d.Pending() != 0 {
		t.Errorf("as of %v with %d pending, want nothing in flight", d.AsOf(), d.Pending())
	}
}
