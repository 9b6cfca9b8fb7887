package aggregate

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/oklog/ulid/v2"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
)

// errHeld says that rows of a group are refused while nothing shows that the tables would take any others.
var errHeld = errors.New("rows are refused and no others were taken since: held back")

// trial follows the search for the rows that the server refuses in one group.
type trial struct {
	successes uint64 // of INSERTs, when the search began
	// cornered is set once a single row was refused before anything was taken: then others are tried whole, not cut further.
	cornered bool
}

// refuse handles a batch whose rows were refused, with nothing of it stored: it is cut in halves, or its single row is quarantined.
// A row is quarantined, and a batch cut beyond the first single row, only if the tables took other rows since the search began:
// a broken view refuses everything, and emptying the journal into quarantine would not mend it.
func (d *Delivery) refuse(g *group, b *Batch, t *trial, reason error) (done bool, err error) {
	proved := d.successes > t.successes
	switch {
	case b.Rows > 1 && (proved || !t.cornered):
		return true, d.split(g, b)
	case b.Rows == 1 && proved:
		b.State, b.Reason = BatchQuarantined, reason.Error()
		d.log.Error("an event is refused and set aside", "batch", b.ID, "quarantine", g.QuarantinedAs, "error", reason)
		return true, d.save(g.Decision)
	}
	t.cornered = true
	return false, nil
}

// split replaces b by two batches of about half its rows each.
func (d *Delivery) split(g *group, b *Batch) error {
	half, seen := b.Rows/2, 0
	var middle uint32
	err := g.visitBatch(b, func(r *row) error {
		if seen == half {
			middle = r.number
		}
		seen++
		return nil
	})
	if err != nil {
		return err
	}
	low := &Batch{ID: d.newID(), From: b.From, To: middle, Months: b.Months, State: BatchPending}
	high := &Batch{ID: d.newID(), From: middle, To: b.To, Months: b.Months, State: BatchPending}
	for _, part := range []*Batch{low, high} {
		if err := g.measure(part); err != nil {
			return err
		}
	}
	b.State = BatchSplit
	g.Batches = append(g.Batches, low, high)
	d.metrics.splits.Inc()
	return d.save(g.Decision)
}

// setAside writes the group's parked and quarantined rows to segments of their own. Doing it again changes nothing.
func (d *Delivery) setAside(ctx context.Context, g *group) error {
	if len(g.Parked) > 0 {
		wanted := make(map[uint32]bool, len(g.Parked))
		for _, number := range g.Parked {
			wanted[number] = true
		}
		if _, err := d.journal.Write(journal.StateParked, journal.KindParked, g.ParkedAs, g.frames(wanted)); err != nil {
			return fmt.Errorf("park rows: %w", err)
		}
	}
	return d.quarantine(ctx, g)
}

func (d *Delivery) quarantine(ctx context.Context, g *group) error {
	refused := g.quarantined()
	if len(refused) == 0 {
		return nil
	}
	wanted := map[uint32]bool{}
	var reasons []string
	var claims []Claim
	for _, b := range refused {
		err := g.visitBatch(b, func(r *row) error {
			wanted[r.number] = true
			if claim, ok := r.claim(); ok {
				claims = append(claims, claim)
			}
			return nil
		})
		if err != nil {
			return err
		}
		reasons = append(reasons, b.Reason)
	}
	if err := d.forgetIDs(ctx, claims); err != nil {
		return err
	}
	note, err := json.Marshal(Quarantine{At: d.now().UTC(), Group: g.ID.String(), Reasons: reasons})
	if err != nil {
		return fmt.Errorf("quarantine rows: %w", err)
	}
	if err := d.journal.WriteFile(decisionsDir, noteName(g.QuarantinedAs), note); err != nil {
		return fmt.Errorf("quarantine rows: %w", err)
	}
	if _, err := d.journal.Write(journal.StateQuarantined, journal.KindRetried, g.QuarantinedAs, g.frames(wanted)); err != nil {
		return fmt.Errorf("quarantine rows: %w", err)
	}
	d.quarantined[g.QuarantinedAs] = true
	return d.assertSegment(ctx, journal.StateQuarantined, g.QuarantinedAs)
}

// forgetIDs removes ids that the table took although another refused the row: an id in it says that its event is counted.
func (d *Delivery) forgetIDs(ctx context.Context, claims []Claim) error {
	if len(claims) == 0 {
		return nil
	}
	var ids, owners []string
	for _, c := range claims {
		ids, owners = append(ids, hex.EncodeToString(c.ID[:])), append(owners, c.Owner.String())
	}
	const leaked = `has({ids:Array(String)}, lower(hex(id))) AND has({owners:Array(String)}, owner)`
	params := []any{clickhouse.Named("ids", ids), clickhouse.Named("owners", owners)}
	var n uint64
	if err := d.conn.QueryRow(ctx, `SELECT count() FROM event_ids WHERE `+leaked, params...).Scan(&n); err != nil {
		return fmt.Errorf("look for ids of refused events: %w", err)
	}
	if n == 0 {
		return nil
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"mutations_sync": 2}))
	if err := d.conn.Exec(ctx, `ALTER TABLE event_ids DELETE WHERE `+leaked, params...); err != nil {
		return fmt.Errorf("forget ids of refused events: %w", err)
	}
	return nil
}

// frames yields the wanted rows of the group, a frame each.
func (g *group) frames(wanted map[uint32]bool) iter.Seq2[[]byte, int] {
	return func(yield func([]byte, int) bool) {
		stop := errors.New("stop")
		_ = visit(g.segments, func(r *row) error { // the segments were read whole when they were decided
			if wanted[r.number] && !yield([]byte(r.encoded), 1) {
				return stop
			}
			return nil
		})
	}
}

// assertSegment makes the segment's rows the owners of their ids.
func (d *Delivery) assertSegment(ctx context.Context, state journal.State, id ulid.ULID) error {
	claims, err := d.claimsOf(state, id)
	if err != nil {
		return err
	}
	return d.claims.Assert(ctx, claims)
}

func (d *Delivery) claimsOf(state journal.State, id ulid.ULID) ([]Claim, error) {
	segment, err := d.journal.Read(state, id)
	if err != nil {
		return nil, fmt.Errorf("read claims of %s: %w", id, err)
	}
	var claims []Claim
	err = visit([]*journal.Segment{segment}, func(r *row) error {
		if claim, ok := r.claim(); ok {
			claims = append(claims, claim)
		}
		return nil
	})
	return claims, err
}

// Quarantine is the note beside a quarantined segment.
type Quarantine struct {
	At      time.Time `json:"at"`
	Group   string    `json:"group"`
	Reasons []string  `json:"reasons"` // one a row, in the segment's order
}

// noteExt ends the name of the file with a Quarantine, in the folder of the decisions.
const noteExt = ".note"

func noteName(id ulid.ULID) string { return id.String() + noteExt }

// releaseQuarantined sends the segment through delivery again, under its own name, so that its rows still own their ids.
func (d *Delivery) releaseQuarantined(id ulid.ULID) error {
	if err := d.journal.Move(id, journal.StateQuarantined, journal.StateSealed); err != nil {
		return err
	}
	delete(d.quarantined, id)
	d.undelivered[id] = true
	d.log.Info("quarantined events go through delivery again", "segment", id)
	return d.removeNote(id)
}

// dropQuarantined forgets the segment: its rows will not be counted, and their ids are free again.
func (d *Delivery) dropQuarantined(ctx context.Context, id ulid.ULID) error {
	claims, err := d.claimsOf(journal.StateQuarantined, id)
	if err != nil {
		return err
	}
	segment, err := d.journal.Read(journal.StateQuarantined, id)
	if err != nil {
		return err
	}
	rows := int64(segment.Rows)
	e := entry{group: id, state: "stored", segments: []string{id.String()}, oldest: d.now(), outcome: "dropped", forgotten: rows}
	if segment.Kind == journal.KindLive { // a damaged segment, which no entry accounts for yet
		e.accepted = rows
	} else {
		e.quarantined = -rows
	}
	if err := d.ledger.write(ctx, e); err != nil {
		return err
	}
	if err := d.claims.Release(ctx, claims); err != nil {
		return err
	}
	if err := d.journal.Remove(journal.StateQuarantined, id); err != nil {
		return err
	}
	delete(d.quarantined, id)
	d.metrics.delivered(e)
	d.log.Warn("quarantined events were dropped", "segment", id, "rows", rows)
	return d.removeNote(id)
}

func (d *Delivery) removeNote(id ulid.ULID) error {
	return d.journal.RemoveFile(decisionsDir, noteName(id))
}

// unpark hands the parked segments to delivery again, which asks anew who owns their ids.
func (d *Delivery) unpark() {
	if d.remoteClaims != nil && d.remoteClaims.waiting() {
		return // they would be parked again
	}
	infos, err := d.journal.List(journal.StateParked)
	if err != nil {
		d.log.Warn("cannot list parked segments", "error", err)
		return
	}
	for _, info := range infos {
		if err := d.journal.Move(info.ID, journal.StateParked, journal.StateSealed); err != nil {
			d.log.Warn("cannot take up a parked segment", "segment", info.ID, "error", err)
			return
		}
	}
}

// Kinds of segments as a decision names them.
var (
	kindParked  = journal.KindParked.String()
	kindRetried = journal.KindRetried.String()
)

// EventsOf decodes the events of a segment, for people who look into a journal.
func EventsOf(segment *journal.Segment) iter.Seq2[schema.Event, error] {
	return func(yield func(schema.Event, error) bool) {
		stop := errors.New("stop")
		err := visit([]*journal.Segment{segment}, func(r *row) error {
			if !yield(*r.event, nil) {
				return stop
			}
			return nil
		})
		if err != nil && !errors.Is(err, stop) {
			yield(schema.Event{}, err)
		}
	}
}
