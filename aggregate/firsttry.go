package aggregate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
)

// firstTry inserts a freshly decided group. Any error makes the group uncertain: how far it came does not matter.
func (d *Delivery) firstTry(ctx context.Context, g *group) error {
	broken, began := d.brokenParts.Load(), time.Now()
	if err := schema.CheckFeeds(ctx, d.conn); err != nil {
		return err
	}
	if err := d.ledger.write(ctx, g.intent()); err != nil {
		return err
	}
	d.step("delivery: after the intent")
	for _, b := range g.Batches {
		if err := d.insert(ctx, g, b); err != nil {
			d.report(err, b)
			return err
		}
		d.step("delivery: after an insert")
	}
	if err := d.proveEvents(ctx); err != nil {
		d.degraded("proving fresh parts", err)
		return err
	}
	if d.brokenParts.Load() != broken {
		return errBrokenPart // another INSERT's proof found it, and it may be of this one
	}
	if err := d.servedSince(ctx, began); err != nil {
		return err
	}
	for _, b := range g.Batches {
		b.State, b.Outcome = BatchStored, outcomeCertain
	}
	return d.close(ctx, g)
}

// errRestarted says that the server may have started after the views were checked: it answers before all of them take part in
// INSERTs, and what such an INSERT left out nobody reports.
var errRestarted = errors.New("the server has just started")

// servedSince proves that the server has run since then. Its uptime counts whole seconds.
func (d *Delivery) servedSince(ctx context.Context, then time.Time) error {
	var seconds uint32
	if err := d.conn.QueryRow(ctx, "SELECT toUInt32(uptime())").Scan(&seconds); err != nil {
		return fmt.Errorf("ask for uptime: %w", err)
	}
	if time.Duration(seconds)*time.Second <= time.Since(then) {
		return errRestarted
	}
	return nil
}

// close records a group whose batches are all stored or set aside, and removes its files. Doing it again changes nothing.
func (d *Delivery) close(ctx context.Context, g *group) error {
	if err := d.setAside(ctx, g); err != nil {
		return err
	}
	d.step("delivery: before the stored entry")
	if err := d.ledger.write(ctx, g.closing()); err != nil {
		return err
	}
	if err := d.prove(ctx, ledgerTable); err != nil {
		return err
	}
	d.step("delivery: after the stored entry")
	return d.clean(g.Decision)
}

// clean removes or keeps a stored group's segments, and its decision last.
func (d *Delivery) clean(decision *Decision) error {
	for _, s := range decision.Segments {
		err := d.finishSegment(s.ID)
		if err != nil && !errors.Is(err, journal.ErrNotFound) {
			return fmt.Errorf("finish segment %s: %w", s.ID, err)
		}
		d.step("delivery: between files")
	}
	if d.cfg.Keep > 0 {
		if err := d.keepDecision(decision); err != nil {
			return err
		}
	}
	if err := d.journal.RemoveFile(decisionsDir, decisionName(decision.ID)); err != nil {
		return fmt.Errorf("remove decision: %w", err)
	}
	return nil
}

func (d *Delivery) finishSegment(id ulid.ULID) error {
	if d.cfg.Keep > 0 {
		return d.journal.Move(id, journal.StateSealed, journal.StateKept)
	}
	return d.journal.Remove(journal.StateSealed, id)
}

// stopGrace is how long an INSERT may go on after Run was told to stop: finishing one is cheaper than settling it.
const stopGrace = 5 * time.Second

// lingering returns a context that ends some time after its parent.
func lingering(parent context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { stop(); cancel() }
}
