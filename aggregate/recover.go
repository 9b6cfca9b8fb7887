package aggregate

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pagetally/pagetally/ingest/journal"
)

// recover takes up what a former process left: stored groups are cleaned away, all others become uncertain, and the rows of both
// uncertain and quarantined segments hold their claims again before any new id is judged.
func (d *Delivery) recover(ctx context.Context) error {
	if err := d.loadClaims(ctx); err != nil {
		return err
	}
	clear(d.undelivered)
	clear(d.quarantined)
	clear(d.busy)
	d.uncertain = nil
	infos, err := d.journal.List(journal.StateSealed)
	if err != nil {
		return fmt.Errorf("list sealed segments: %w", err)
	}
	for _, info := range infos {
		d.undelivered[info.ID] = true
	}
	if err := d.recoverQuarantine(ctx); err != nil {
		return err
	}
	names, err := d.journal.ListFiles(decisionsDir)
	if err != nil {
		return fmt.Errorf("list decisions: %w", err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, decisionExt) {
			if err := d.recoverDecision(ctx, name); err != nil {
				return fmt.Errorf("recover %s: %w", name, err)
			}
		}
	}
	return d.loadKept(ctx)
}

// loadClaims fills claims that are kept in this process alone, and takes up those that are kept elsewhere.
func (d *Delivery) loadClaims(ctx context.Context) error {
	if d.remoteClaims != nil {
		return d.remoteClaims.load()
	}
	// A Redis that a former process kept its claims in will not know of those of this one.
	if err := d.journal.RemoveFile(decisionsDir, epochName); err != nil {
		return err
	}
	if memory, ok := d.claims.(*MemoryClaims); ok {
		return memory.Load(ctx)
	}
	return nil
}

func (d *Delivery) recoverQuarantine(ctx context.Context) error {
	infos, err := d.journal.List(journal.StateQuarantined)
	if err != nil {
		return fmt.Errorf("list quarantined segments: %w", err)
	}
	for _, info := range infos {
		d.quarantined[info.ID] = true
		if err := d.assertSegment(ctx, journal.StateQuarantined, info.ID); err != nil && !isCorrupt(err) {
			return err
		}
	}
	return nil
}

func (d *Delivery) recoverDecision(ctx context.Context, name string) error {
	decision, err := d.readDecision(name)
	if err != nil {
		return err // to go on without it could count its rows twice: an operator has to look
	}
	stored, err := d.ledger.isStored(ctx, decision.ID)
	if err != nil {
		return err
	}
	if stored {
		if err := d.clean(decision); err != nil {
			return err
		}
		for _, s := range decision.Segments {
			delete(d.undelivered, s.ID)
		}
		return nil
	}
	segments, err := d.openSegments(decision.Segments, journal.StateSealed)
	if errors.Is(err, journal.ErrNotFound) {
		// Segments are removed only after the ledger has the group. A ledger that lacks it was itself lost, with the tables.
		d.log.Error("the ledger does not know a group whose segments were delivered: has ClickHouse lost its data?", "group", decision.ID)
		return d.journal.RemoveFile(decisionsDir, name)
	}
	if err != nil {
		return err
	}
	g := newGroup(decision, segments)
	for _, s := range decision.Segments {
		d.busy[s.ID] = true
	}
	d.uncertain = append(d.uncertain, g)
	d.cfg.Hot.count(g) // the former process may not have come to it
	d.log.Info("a group of unknown outcome is taken up", "group", decision.ID, "rows", decision.rows())
	return d.assertGroup(ctx, g)
}

func (d *Delivery) readDecision(name string) (*Decision, error) {
	content, err := d.journal.ReadFile(decisionsDir, name)
	if err != nil {
		return nil, err
	}
	return decodeDecision(content)
}

// assertGroup makes the rows that the group counts the owners of their ids.
func (d *Delivery) assertGroup(ctx context.Context, g *group) error {
	var claims []Claim
	err := visit(g.segments, func(r *row) error {
		if claim, ok := r.claim(); ok && !g.skip[r.number] {
			claims = append(claims, claim)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return d.claims.Assert(ctx, claims)
}

// setAsideDamaged moves segments that cannot be read into quarantine, so that one bad file does not stop the others.
func (d *Delivery) setAsideDamaged(infos []journal.Info) error {
	for _, info := range infos {
		segment, err := d.journal.Read(journal.StateSealed, info.ID)
		if err == nil {
			_, err = surveyRows([]*journal.Segment{segment})
		}
		if !isCorrupt(err) {
			continue
		}
		d.log.Error("a damaged segment is set aside", "segment", info.ID, "error", err)
		if err := d.journal.Move(info.ID, journal.StateSealed, journal.StateQuarantined); err != nil {
			return fmt.Errorf("set aside damaged segment: %w", err)
		}
		d.quarantined[info.ID] = true
		delete(d.undelivered, info.ID)
		d.cfg.Watch.Settled(info.ID)
	}
	return nil
}
