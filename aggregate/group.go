package aggregate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
)

// group is a decision with the segments it speaks of, opened.
type group struct {
	*Decision
	segments []*journal.Segment
	// skip marks the rows that no batch holds: duplicates and parked ones.
	skip map[uint32]bool
	// proved is set while segments are the very bytes in memory that the decision was made from.
	proved bool
}

// errCorruptGroup says that the segments no longer hold what the decision fixed; inserting them would store something else.
var errCorruptGroup = errors.New("segments do not match their decision")

// row is one event of a group while it is visited; event and encoded are valid only during the visit.
type row struct {
	number  uint32 // through the group
	owner   Owner
	event   *schema.Event
	encoded string
}

// claim is the row's claim on its event id; ok is false for an event without one.
func (r *row) claim() (c Claim, ok bool) {
	id, ok := r.event.IDHash()
	if !ok {
		return c, false
	}
	return Claim{ID: id, Owner: r.owner, Content: r.event.ContentHash(), ReceivedAt: r.event.ReceivedAt}, true
}

// openSegments reads the segments of refs, in order, from wherever among the states they lie.
func (d *Delivery) openSegments(refs []SegmentRef, states ...journal.State) ([]*journal.Segment, error) {
	segments := make([]*journal.Segment, len(refs))
	for i, ref := range refs {
		var err error
		for _, state := range states {
			if segments[i], err = d.journal.Read(state, ref.ID); err == nil {
				break
			}
		}
		if err != nil {
			return nil, fmt.Errorf("open segment %s: %w", ref.ID, err)
		}
	}
	return segments, nil
}

func newGroup(decision *Decision, segments []*journal.Segment) *group {
	g := &group{Decision: decision, segments: segments, skip: make(map[uint32]bool, len(decision.Duplicates)+len(decision.Parked))}
	for _, rows := range [][]uint32{decision.Duplicates, decision.Parked} {
		for _, number := range rows {
			g.skip[number] = true
		}
	}
	return g
}

// visit calls f for every row of the segments in order and stops at its first error.
func visit(segments []*journal.Segment, f func(*row) error) error {
	var event schema.Event
	r := row{event: &event}
	for _, segment := range segments {
		r.owner = Owner{Segment: segment.ID}
		for frame := range segment.Frames {
			rest, err := frame.Payload, error(nil)
			for rest != "" {
				before := rest
				if rest, err = schema.DecodeEvent(rest, &event); err != nil {
					return fmt.Errorf("segment %s row %d: %w", segment.ID, r.owner.Index, err)
				}
				r.encoded = before[:len(before)-len(rest)]
				if err := f(&r); err != nil {
					return err
				}
				r.owner.Index++
				r.number++
			}
		}
	}
	return nil
}

// visitBatch calls f for the rows of b.
func (g *group) visitBatch(b *Batch, f func(*row) error) error {
	return visit(g.segments, func(r *row) error {
		if r.number < b.From || r.number >= b.To || g.skip[r.number] {
			return nil
		}
		if b.Months != nil && !slices.Contains(b.Months, r.event.Month()) {
			return nil
		}
		return f(r)
	})
}

// measure fills in what a batch's decision says of its rows, from the rows.
func (g *group) measure(b *Batch) error {
	m := newMeasure(b)
	err := g.visitBatch(b, func(r *row) error {
		m.add(r)
		return nil
	})
	m.finish()
	return err
}

// measure adds rows up into a batch.
type measure struct {
	batch *Batch
	parts map[int]*PartitionSum
	// A run of rows of one month is the rule: its sum is kept at hand.
	month int
	part  *PartitionSum
}

func newMeasure(b *Batch) *measure {
	b.Rows, b.N, b.CRC, b.Parts, b.MinTS, b.MaxTS = 0, 0, 0, nil, 0, 0
	return &measure{batch: b, parts: map[int]*PartitionSum{}}
}

func (m *measure) add(r *row) {
	b, e := m.batch, r.event
	if b.Rows == 0 || e.TS < b.MinTS {
		b.MinTS = e.TS
	}
	if b.Rows == 0 || e.TS > b.MaxTS {
		b.MaxTS = e.TS
	}
	b.Rows++
	b.N += e.N
	b.CRC = schema.Checksum(b.CRC, r.encoded)
	if month := e.Month(); month != m.month {
		m.month, m.part = month, m.parts[month]
		if m.part == nil {
			m.part = &PartitionSum{Month: month}
			m.parts[month] = m.part
		}
	}
	m.part.Rows++
	m.part.N += e.N
}

func (m *measure) finish() {
	for _, p := range m.parts {
		m.batch.Parts = append(m.batch.Parts, *p)
	}
	slices.SortFunc(m.batch.Parts, func(x, y PartitionSum) int { return x.Month - y.Month })
}

// prove compares the rows of b with the decision before a byte is sent: what is sent cannot be taken back.
func (g *group) prove(b *Batch) error {
	if g.proved {
		return nil
	}
	check := Batch{From: b.From, To: b.To, Months: b.Months}
	if err := g.measure(&check); err != nil {
		return fmt.Errorf("%w: %w", errCorruptGroup, err)
	}
	if check.CRC != b.CRC || check.Rows != b.Rows {
		return fmt.Errorf("%w: batch %s has %d rows with checksum %08x, decided were %d with %08x",
			errCorruptGroup, b.ID, check.Rows, check.CRC, b.Rows, b.CRC)
	}
	return nil
}

// insertChunk is how many rows are held beside the block they are appended to.
const insertChunk = 2048

// send inserts the rows of b that keep allows (nil: all) as one block. It refuses to send rows that are not the decided ones.
func (g *group) send(ctx context.Context, conn Conn, to schema.Destination, b *Batch, keep func(*row) bool) error {
	if err := g.prove(b); err != nil {
		return err
	}
	batch, err := to.Prepare(ctx, conn)
	if err != nil {
		return err
	}
	defer func() { _ = batch.Close() }()
	var rows schema.Rows
	token := b.ID.String()
	err = g.visitBatch(b, func(r *row) error {
		if keep != nil && !keep(r) {
			return nil
		}
		owner := ""
		if r.event.EventID != "" {
			owner = r.owner.String()
		}
		rows.Append(r.event, token, owner)
		if rows.Len() < insertChunk {
			return nil
		}
		if batch.Rows() == 0 {
			if err := rows.Reserve(batch, to, int(b.Rows)); err != nil {
				return err
			}
		}
		return rows.AppendTo(batch, to)
	})
	if err == nil {
		err = rows.AppendTo(batch, to)
	}
	if err != nil {
		return fmt.Errorf("build block: %w", err)
	}
	return batch.Send()
}
