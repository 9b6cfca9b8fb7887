package aggregate

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/pagetally/pagetally/schema"
)

// How a stored batch got there, for the ledger.
const (
	outcomeCertain = "certain" // the first try answered OK
	outcomeChecked = "checked" // a retry answered OK and the count agreed
	outcomeFilled  = "filled"  // rows were missing after the retry answered OK and were filled in
)

// settle brings a group whose INSERTs have unknown outcomes to a known one: each pending batch is stored, split, or held back.
// Nothing else may be inserted while it runs. It returns nil when the group can be closed, errHeld when rows of it are refused and
// nothing proves yet that the tables would take others, and otherwise ctx's error: everything else is retried for ever.
func (d *Delivery) settle(ctx context.Context, g *group, t *trial) error {
	d.metrics.uncertain.Inc()
	t.cornered = false
	// After a restart it is not known whether the intent was written.
	err := d.untilDone(ctx, "writing the intent", func(ctx context.Context) error { return d.ledger.write(ctx, g.intent()) })
	if err != nil {
		return err
	}
	for {
		pending := g.pending()
		if len(pending) == 0 {
			return nil
		}
		progress := false
		for _, b := range pending {
			done, err := d.settleBatch(ctx, g, b, t)
			if err != nil {
				return err
			}
			progress = progress || done
		}
		if !progress {
			return errHeld
		}
	}
}

// settleBatch retries b until it is stored or refused for its rows. done is false when b had to be left as it is for now.
func (d *Delivery) settleBatch(ctx context.Context, g *group, b *Batch, t *trial) (done bool, err error) {
	for attempt := 0; ; attempt++ {
		if attempt > 0 {
			if err := d.pause(ctx, d.backoff(attempt)); err != nil {
				return false, err
			}
		}
		refusal := d.trySettle(ctx, g, b)
		if refusal == nil {
			return true, nil
		}
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		d.report(refusal, b)
		switch classify(refusal) {
		case outcomeCorrupt:
			return false, refusal
		case outcomeData:
			nothing, err := d.nothingLanded(ctx, g, b)
			if err != nil {
				d.degraded("taking back a refused batch", err)
				continue // the server went away: ask again
			}
			if nothing {
				return d.refuse(g, b, t, refusal)
			}
			// Some tables took the rows before another refused them. Under the token they will not be taken again, so what
			// is left is to fill in the rest, past the views.
			b.retried = true
		}
	}
}

// trySettle makes one round: wait, retry, compare, fill, mend. Once a retry has answered OK it is not repeated: the token is known
// to the server, and only comparing tells more.
func (d *Delivery) trySettle(ctx context.Context, g *group, b *Batch) error {
	if err := d.waitGone(ctx, b); err != nil {
		return err
	}
	if !b.retried {
		d.step("settle: before the retry")
		if err := d.insert(ctx, g, b); err != nil {
			return err
		}
		b.retried = true
		d.successes++
		d.step("settle: after the retry")
	}
	outcome, err := d.complete(ctx, g, b)
	if err != nil {
		return err
	}
	if err := d.proveEvents(ctx); err != nil {
		return err
	}
	b.State, b.Outcome = BatchStored, outcome
	return d.save(g.Decision)
}

// complete makes the tables hold exactly the rows of b, whatever of them they hold now. No INSERT of b may be running.
func (d *Delivery) complete(ctx context.Context, g *group, b *Batch) (outcome string, err error) {
	if err := d.proveEvents(ctx); err != nil {
		return "", err // a part that cannot be read cannot be compared either
	}
	found, err := d.landed(ctx, b)
	if err != nil {
		return "", err
	}
	outcome = outcomeChecked
	if len(found.wrong) > 0 {
		// One block makes one part a month, so a month is there whole or not at all. Should that ever fail, the rows of the
		// month are taken out and filled in again rather than left wrong.
		d.log.Error("a batch is stored in part: replacing its rows", "batch", b.ID, "months", found.wrong)
		if err := d.takeOut(ctx, b, found.wrong); err != nil {
			return "", err
		}
		found.missing = append(found.missing, found.wrong...)
	}
	if len(found.missing) > 0 {
		outcome = outcomeFilled
		d.step("settle: before filling")
		if err := d.fill(ctx, g, b, found.missing); err != nil {
			return "", fmt.Errorf("fill events: %w", err)
		}
		d.metrics.filled.Inc()
	}
	if err := d.fillIDs(ctx, g, b); err != nil {
		return "", fmt.Errorf("fill event ids: %w", err)
	}
	d.step("settle: before mending")
	return outcome, d.mendRollups(ctx, g, b)
}

// fill inserts the rows of the given months straight into `events`, one month at a time and without a token: that they are missing
// was just seen, and a fill of unknown outcome is looked at again before the next.
func (d *Delivery) fill(ctx context.Context, g *group, b *Batch, months []int) error {
	for _, month := range months {
		err := d.sendDirect(ctx, g, b, schema.ToEvents, func(r *row) bool { return r.event.Month() == month })
		if err != nil {
			return err
		}
	}
	return nil
}

// fillIDs stores the ids of b once more; the table keeps one row an id.
func (d *Delivery) fillIDs(ctx context.Context, g *group, b *Batch) error {
	any := false
	err := g.visitBatch(b, func(r *row) error {
		any = any || r.event.EventID != ""
		return nil
	})
	if err != nil || !any {
		return err
	}
	return d.sendDirect(ctx, g, b, schema.ToEventIDs, func(r *row) bool { return r.event.EventID != "" })
}

func (d *Delivery) sendDirect(ctx context.Context, g *group, b *Batch, to schema.Destination, keep func(*row) bool) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.InsertTimeout)
	defer cancel()
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(mendSettings), clickhouse.WithQueryID(d.queryID(b.ID)))
	return g.send(ctx, d.conn, to, b, keep)
}

// takeOut deletes the rows of b in the given months from `events`.
func (d *Delivery) takeOut(ctx context.Context, b *Batch, months []int) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"mutations_sync": 2}), clickhouse.WithQueryID(d.queryID(b.ID)))
	for _, month := range months {
		err := d.conn.Exec(ctx, `ALTER TABLE events DELETE WHERE batch = {batch:String} AND toYYYYMM(ts) = {month:UInt32}`,
			clickhouse.Named("batch", b.ID.String()), clickhouse.Named("month", fmt.Sprint(month)))
		if err != nil {
			return fmt.Errorf("take out rows: %w", err)
		}
	}
	return nil
}

// nothingLanded reports whether `events` holds no row of b, and takes back what the rollups hold of it then, so that its rows may be
// sent under other tokens.
func (d *Delivery) nothingLanded(ctx context.Context, g *group, b *Batch) (bool, error) {
	if err := d.waitGone(ctx, b); err != nil {
		return false, err
	}
	found, err := d.storedParts(ctx, b)
	if err != nil || len(found) > 0 {
		return false, err
	}
	return true, d.takeBack(ctx, g, b)
}

// backoff grows from a tenth of a second to MaxBackoff: failures of a moment cost little and long ones no load.
func (d *Delivery) backoff(attempt int) time.Duration {
	wait := 100 * time.Millisecond << min(attempt, 16)
	return min(wait, d.cfg.MaxBackoff)
}
