package aggregate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pagetally/pagetally/ingest/journal"
)

// heldGroup is a group set back. Its segments are not kept in memory: many groups may be held while a table is broken.
type heldGroup struct {
	decision *Decision
	trial    *trial
	next     time.Time
	attempt  int
}

// settleAll settles the uncertain groups one after the other. INSERTs in flight are waited for first, so that nothing else inserts.
func (d *Delivery) settleAll(ctx context.Context) error {
	d.drainInFlight()
	for len(d.uncertain) > 0 {
		g := d.uncertain[0]
		t := &trial{successes: d.successes}
		switch held, err := d.settleAndClose(ctx, g, t); {
		case err != nil:
			return err
		case held:
			d.held = append(d.held, &heldGroup{decision: g.Decision, trial: t, next: d.now().Add(heldRetry)})
		}
		d.uncertain = d.uncertain[1:]
	}
	d.metrics.held.Set(float64(len(d.held)))
	return nil
}

// settleAndClose reports held when the group must wait although nothing is wrong with the server.
func (d *Delivery) settleAndClose(ctx context.Context, g *group, t *trial) (held bool, err error) {
	err = d.settle(ctx, g, t)
	if errors.Is(err, errHeld) || errors.Is(err, errCorruptGroup) {
		d.log.Error("events are held back", "group", g.ID, "rows", g.rows(), "error", err)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	err = d.untilDone(ctx, "closing", func(ctx context.Context) error { return d.close(ctx, g) })
	if err != nil {
		return false, err
	}
	d.closed(g)
	return false, nil
}

const (
	heldRetry = 2 * time.Second
	// heldFew is how many groups may be held before new ones are only let in as slowly as held ones are tried again.
	heldFew = 4
)

// retryHeld settles the first held group whose time has come.
func (d *Delivery) retryHeld(ctx context.Context) error {
	for i, h := range d.held {
		if d.now().Before(h.next) {
			continue
		}
		d.drainInFlight()
		if len(d.uncertain) > 0 {
			return nil // they go first
		}
		segments, err := d.openSegments(h.decision.Segments, journal.StateSealed)
		if err != nil {
			return fmt.Errorf("open held group: %w", err)
		}
		held, err := d.settleAndClose(ctx, newGroup(h.decision, segments), h.trial)
		switch {
		case err != nil:
			return err
		case held:
			h.attempt++
			h.next = d.now().Add(min(heldRetry<<min(h.attempt, 8), time.Minute))
			d.letIn = true
			return nil
		}
		d.held = slices.Delete(d.held, i, i+1)
		d.metrics.held.Set(float64(len(d.held)))
		return nil
	}
	return nil
}

// mayDispatch slows new groups down while everything seems to be refused, without stopping them: one that is taken proves the tables.
func (d *Delivery) mayDispatch() bool {
	if d.inFlight >= d.cfg.Parallel || len(d.uncertain) > 0 {
		return false
	}
	if len(d.held) >= heldFew {
		letIn := d.letIn
		d.letIn = false
		return letIn
	}
	return true
}
