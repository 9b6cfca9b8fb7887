package aggregate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pagetally/pagetally/ingest/journal"
)

// A server that does not fsync may lose parts it acknowledged when its machine fails. Delivered segments are therefore kept for a
// while, with their decisions under another name, and if the server's uptime goes back they are compared with the tables again.
// A server that syncs, as the embedded engine does, needs none of this: Config.Keep is 0.
type keptSegments struct {
	groups     []keptGroup // oldest first
	bytes      int64
	lastUptime time.Duration
	nextLook   time.Time
}

type keptGroup struct {
	id       ulid.ULID
	segments []SegmentRef
	bytes    int64
	at       time.Time
}

const (
	keptExt     = ".kept"
	uptimeEvery = 5 * time.Second
)

func keptName(id ulid.ULID) string { return id.String() + keptExt }

func (d *Delivery) keepDecision(decision *Decision) error {
	content, err := decision.encode()
	if err != nil {
		return err
	}
	if err := d.journal.WriteFile(decisionsDir, keptName(decision.ID), content); err != nil {
		return fmt.Errorf("keep decision: %w", err)
	}
	return nil
}

// add takes up a group that close has just moved aside.
func (k *keptSegments) add(d *Delivery, g *group) {
	if d.cfg.Keep == 0 {
		return
	}
	kept := keptGroup{id: g.ID, segments: g.Segments, at: d.now()}
	for _, s := range g.segments {
		kept.bytes += s.Bytes
	}
	k.groups, k.bytes = append(k.groups, kept), k.bytes+kept.bytes
}

// expire removes groups that were kept long enough or are too many. What cannot be removed now is tried again at the next tick.
func (k *keptSegments) expire(d *Delivery) {
	for len(k.groups) > 0 {
		oldest := k.groups[0]
		if d.now().Sub(oldest.at) < d.cfg.Keep && k.bytes <= d.cfg.KeepBytes {
			return
		}
		if err := d.dropKept(oldest); err != nil {
			d.log.Warn("cannot remove a kept group", "group", oldest.id, "error", err)
			return
		}
		k.groups, k.bytes = k.groups[1:], k.bytes-oldest.bytes
	}
}

func (d *Delivery) dropKept(kept keptGroup) error {
	for _, s := range kept.segments {
		if err := d.journal.Remove(journal.StateKept, s.ID); err != nil && !errors.Is(err, journal.ErrNotFound) {
			return err
		}
	}
	if err := d.journal.RemoveFile(decisionsDir, keptName(kept.id)); err != nil && !errors.Is(err, journal.ErrNotFound) {
		return err
	}
	return nil
}

// loadKept takes up what a former process kept, and treats it as doubtful: the server may have restarted meanwhile.
func (d *Delivery) loadKept(ctx context.Context) error {
	names, err := d.journal.ListFiles(decisionsDir)
	if err != nil {
		return fmt.Errorf("list kept groups: %w", err)
	}
	d.kept = keptSegments{}
	for _, name := range names {
		if !strings.HasSuffix(name, keptExt) {
			continue
		}
		decision, err := d.readDecision(name)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		kept := keptGroup{id: decision.ID, segments: decision.Segments, at: decision.Created}
		d.kept.groups = append(d.kept.groups, kept)
	}
	return d.recheckKept(ctx)
}

// watchServer compares kept groups with the tables again when the server turns out to have restarted.
func (d *Delivery) watchServer(ctx context.Context) error {
	if d.cfg.Keep == 0 || d.now().Before(d.kept.nextLook) {
		return nil
	}
	d.kept.nextLook = d.now().Add(uptimeEvery)
	var seconds uint32
	if err := d.conn.QueryRow(ctx, `SELECT toUInt32(uptime())`).Scan(&seconds); err != nil {
		return nil // an INSERT will find out; nothing was learned here
	}
	uptime := time.Duration(seconds) * time.Second
	restarted := uptime < d.kept.lastUptime
	d.kept.lastUptime = uptime
	if !restarted {
		return nil
	}
	d.log.Warn("the server has restarted: comparing recent batches with it again", "groups", len(d.kept.groups))
	d.drainInFlight()
	return d.untilDone(ctx, "comparing recent batches", d.recheckKept)
}

// recheckKept makes the tables hold the rows of every kept group, whatever they lost of them.
func (d *Delivery) recheckKept(ctx context.Context) error {
	for _, kept := range d.kept.groups {
		decision, err := d.readDecision(keptName(kept.id))
		if err != nil {
			return err
		}
		segments, err := d.openSegments(decision.Segments, journal.StateKept)
		if errors.Is(err, journal.ErrNotFound) {
			continue // removed to make room
		}
		if err != nil {
			return err
		}
		g := newGroup(decision, segments)
		// What was built of its days while rows were lost is old with the intent, and whatever is built meanwhile with the closing entry.
		if err := d.ledger.write(ctx, g.intent()); err != nil {
			return err
		}
		for _, b := range g.Batches {
			if b.State != BatchStored {
				continue
			}
			if err := d.waitGone(ctx, b); err != nil {
				return err
			}
			if _, err := d.complete(ctx, g, b); err != nil {
				return fmt.Errorf("recheck batch %s: %w", b.ID, err)
			}
		}
		if err := d.ledger.write(ctx, g.closing()); err != nil {
			return err
		}
	}
	return nil
}
