package aggregate

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// change is something to be written to Redis: a claim that holds, or one that ends.
type change struct {
	Claim
	release bool
}

// build is the way from an outage to a Redis that holds every claim.
//
// First the epoch in Redis becomes next: from the former one if Redis kept that, so that only what changed meanwhile is to be written;
// else from nothing, and the ids of the table are written as well. A call of before that Redis comes to only now finds its epoch gone.
// Then all is written under next, each call refused if Redis loses next meanwhile. At the end next becomes the epoch that claims are
// made under.
type build struct {
	next  string
	begun bool
	whole bool   // from nothing: the table's ids have to be written
	read  bool   // the table was read to its end
	after string // last id read, in hexadecimal

	changes  []change // to be written, in this order
	room     int      // for further changes; at 0 they are given up and all is written anew
	written  int
	failures int
	retry    time.Time // not to be tried before
}

const (
	// changesHeld bounds what is remembered during an outage; what is more costs a reading of the table.
	changesHeld = 200_000
	// claimsPage is how many ids are read from the table at once.
	claimsPage = 16_384
	// minClaimTTL is the least time a claim is kept, for those that are about to end.
	minClaimTTL = time.Minute
)

func newBuild() build { return build{next: rand.Text(), room: changesHeld} }

// ready is the epoch that claims are made under once all is written under next.
func (b *build) ready() string { return b.next + "." }

// down begins an outage, or another try, after Redis failed or said that it does not hold the claims.
func (r *RedisClaims) down(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return // the process is stopping, which says nothing about Redis
	}
	lost := errors.Is(err, errNotReady)
	if r.up {
		r.noteOutage()
		r.up = false
		r.metrics.up.Set(0)
		r.build = newBuild()
	}
	if reason := err.Error(); r.away.Swap(&reason) == nil {
		r.log.Warn("claims do without Redis", "policy", r.cfg.Policy, "error", err)
	}
	if lost {
		r.startOver()
		return
	}
	r.build.retry = r.now().Add(min(claimsBackoffFirst<<min(r.build.failures, 16), claimsBackoffMost))
	r.build.failures++
	r.metrics.failures.Inc()
}

// startOver makes the build one from nothing. Releases are kept: the table does not tell of them.
func (r *RedisClaims) startOver() {
	old := r.build
	r.epoch = ""
	r.build = newBuild()
	r.build.failures, r.build.retry = old.failures, old.retry
	for _, c := range old.changes {
		if c.release {
			r.build.changes = append(r.build.changes, c)
		}
	}
}

// remember keeps a change until Redis takes it. It comes after the change was made in memory.
func (r *RedisClaims) remember(c change) {
	if r.build.room == 0 {
		r.log.Warn("too many claims were made without Redis to keep note of: all will be written to it", "changes", len(r.build.changes))
		r.build.changes = nil
		r.startOver()
	}
	if r.epoch == "" && !r.build.begun && !c.release {
		return // it will be found in the table or among what is not delivered
	}
	r.build.changes = append(r.build.changes, c)
	r.build.room--
}

// advance goes on with the build for about the given time and reports whether Redis can be asked now.
func (r *RedisClaims) advance(ctx context.Context, budget time.Duration) bool {
	if r.now().Before(r.build.retry) {
		return false
	}
	for end := r.now().Add(budget); ; {
		done, err := r.step(ctx)
		switch {
		case err != nil:
			r.down(ctx, err)
			if !errors.Is(err, errNotReady) || ctx.Err() != nil {
				return false
			}
		case done:
			r.backUp()
			return true
		default:
			r.build.failures = 0
		}
		if !r.now().Before(end) {
			return false
		}
	}
}

// step does the next part of the build. Doing it again after an error changes nothing.
func (r *RedisClaims) step(ctx context.Context) (done bool, err error) {
	b := &r.build
	switch {
	case !b.begun:
		return false, r.begin(ctx)
	case len(b.changes) > 0:
		now := b.changes[:min(len(b.changes), claimsPipeline)]
		if err := r.write(ctx, b.next, b.ready(), now); err != nil {
			return false, err
		}
		b.changes, b.room, b.written = b.changes[len(now):], b.room+len(now), b.written+len(now)
		return false, nil
	case b.whole && !b.read:
		return false, r.writePage(ctx)
	}
	return true, r.finish(ctx)
}

func (r *RedisClaims) begin(ctx context.Context) error {
	b := &r.build
	if err := r.everySlot(ctx, opBegin, r.epoch, b.next); err != nil {
		return err
	}
	b.begun, b.room = true, changesHeld
	if r.epoch != "" {
		return nil
	}
	b.whole = true
	for _, claim := range r.memory.held {
		if r.hooks.pinned(claim.Owner.Segment) {
			b.changes = append(b.changes, change{Claim: claim})
		}
	}
	r.log.Info("writing all claims to Redis", "undelivered", len(b.changes))
	return nil
}

// writePage writes the next ids of the table. Those stored behind it meanwhile are among the changes.
func (r *RedisClaims) writePage(ctx context.Context) error {
	b := &r.build
	rows, err := r.cfg.Conn.Query(ctx, `SELECT id, owner, content, received_at FROM event_ids
		WHERE received_at >= {from:DateTime64(3, 'UTC')} AND id > toFixedString(unhex({after:String}), 16)
		ORDER BY id LIMIT 1 BY id LIMIT {limit:UInt64}`,
		fromTime(r.memory.since(nil)), clickhouse.Named("after", b.after), clickhouse.Named("limit", fmt.Sprint(claimsPage)))
	if err != nil {
		return fmt.Errorf("read claims: %w", err)
	}
	page, err := scanClaims(rows)
	if err != nil {
		return fmt.Errorf("read claims: %w", err)
	}
	changes := make([]change, len(page))
	for i, claim := range page {
		changes[i] = change{Claim: claim}
	}
	if err := r.write(ctx, b.next, b.ready(), changes); err != nil {
		return err
	}
	b.written += len(page)
	b.read = len(page) < claimsPage
	if len(page) > 0 {
		b.after = hex.EncodeToString(page[len(page)-1].ID[:])
	}
	return nil
}

// finish is the last step: all is written.
func (r *RedisClaims) finish(ctx context.Context) error {
	ready := r.build.ready()
	if err := r.everySlot(ctx, opFinish, r.build.next, ready); err != nil {
		return err
	}
	if err := r.hooks.files.WriteFile(decisionsDir, epochName, []byte(ready)); err != nil {
		return fmt.Errorf("keep epoch of claims: %w", err)
	}
	r.epoch, r.filed = ready, true
	return nil
}

// backUp ends an outage.
func (r *RedisClaims) backUp() {
	r.noteOutage()
	r.up, r.look = true, r.now().Add(claimsLook)
	r.metrics.up.Set(1)
	kind := "changes"
	if r.build.whole {
		kind = "whole"
	}
	r.metrics.rebuilds.WithLabelValues(kind).Inc()
	if r.away.Swap(nil) != nil || r.build.whole {
		r.log.Info("claims are made in Redis", "written", r.build.written)
	}
	r.build = build{}
}
