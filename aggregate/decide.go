package aggregate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
)

// maxMonths bounds the monthly partitions of one INSERT: each becomes a part in every table.
const maxMonths = 24

// decide opens the segments and makes their decision under the given id; the decision is on disk when it returns. A repetition after
// an error must name the same id: the file may be on disk already, and two decisions of one segment would count it twice.
func (d *Delivery) decide(ctx context.Context, id ulid.ULID, infos []journal.Info) (*group, error) {
	refs := make([]SegmentRef, len(infos))
	for i, info := range infos {
		refs[i] = SegmentRef{ID: info.ID, Kind: info.Kind.String(), Rows: uint32(info.Rows)}
	}
	segments, err := d.openSegments(refs, journal.StateSealed)
	if err != nil {
		return nil, err
	}
	survey, err := surveyRows(segments)
	if err != nil {
		return nil, err
	}
	decision := &Decision{
		ID: id, Node: d.node, Created: d.now().UTC(), Segments: refs,
		Settings: insertSettings(), ParkedAs: d.newID(), QuarantinedAs: d.newID(),
		Oldest: time.UnixMilli(survey.oldest).UTC(), Touched: survey.touched,
	}
	if decision.rows() != survey.rows {
		return nil, fmt.Errorf("%w: %d rows listed, %d found", errCorruptGroup, decision.rows(), survey.rows)
	}
	if err := d.judge(ctx, decision, survey.claims); err != nil {
		return nil, err
	}
	g := newGroup(decision, segments)
	if err := g.cut(survey, d.newID); err != nil {
		return nil, err
	}
	d.step("decision: before the file")
	if err := d.save(decision); err != nil {
		return nil, err
	}
	g.proved = true
	d.step("decision: after the file")
	return g, nil
}

// insertSettings are the settings that the decision fixes: a later version with other ones must not change a retry. The token is not
// among them, for each batch has its own.
func insertSettings() map[string]string {
	settings := map[string]string{}
	for name, value := range schema.InsertSettings("") {
		if name != tokenSetting {
			settings[name] = fmt.Sprint(value)
		}
	}
	return settings
}

const tokenSetting = "insert_deduplication_token"

// survey is what one pass over a group's rows tells.
type survey struct {
	whole   Batch // of all rows
	rows    uint64
	oldest  int64 // earliest receive time, Unix milliseconds
	months  []int
	touched []SiteDay
	claims  []rowClaim
}

type rowClaim struct {
	row uint32
	Claim
}

func surveyRows(segments []*journal.Segment) (*survey, error) {
	s := new(survey)
	type siteDay struct {
		site string
		day  int64
	}
	const day = 24 * 60 * 60 * 1000
	seen, months, last := map[siteDay]bool{}, map[int]bool{}, siteDay{day: -1}
	measure := newMeasure(&s.whole)
	err := visit(segments, func(r *row) error {
		e := r.event
		measure.add(r)
		if s.rows == 0 || e.ReceivedAt < s.oldest {
			s.oldest = e.ReceivedAt
		}
		s.rows++
		if at := (siteDay{e.Site, e.TS / day}); at != last {
			last = at
			if !seen[at] {
				seen[at], months[e.Month()] = true, true
				s.touched = append(s.touched, SiteDay{Site: at.site, Day: time.UnixMilli(e.TS).UTC().Format(time.DateOnly)})
			}
		}
		if claim, ok := r.claim(); ok {
			s.claims = append(s.claims, rowClaim{r.number, claim})
		}
		return nil
	})
	measure.finish()
	for month := range months {
		s.months = append(s.months, month)
	}
	slices.Sort(s.months)
	return s, err
}

// judge finds the duplicates among the claimed rows: within the group first (two copies of one id come 300 ms apart), then by asking
// who holds each id.
func (d *Delivery) judge(ctx context.Context, decision *Decision, claims []rowClaim) error {
	if len(claims) == 0 {
		return nil
	}
	first := make(map[[16]byte]rowClaim, len(claims))
	asked, rows := make([]Claim, 0, len(claims)), make([]uint32, 0, len(claims))
	var copies []rowClaim
	for _, c := range claims {
		if _, ok := first[c.ID]; ok {
			copies = append(copies, c)
			continue
		}
		first[c.ID] = c
		asked, rows = append(asked, c.Claim), append(rows, c.row)
	}
	holders, err := d.claims.Claim(ctx, asked)
	if errors.Is(err, ErrClaimsAway) {
		for _, c := range claims {
			decision.Parked = append(decision.Parked, c.row)
		}
		return nil // in the order of the rows
	}
	if err != nil {
		return fmt.Errorf("claim event ids: %w", err)
	}
	d.step("decision: after claims")
	verdicts := make(map[[16]byte]verdict, len(copies))
	for i, holder := range holders {
		v := verdict{holder: holder, kind: verdictOurs}
		if holder.Owner != asked[i].Owner {
			if v.kind, err = d.standing(ctx, holder.Owner); err != nil {
				return err
			}
		}
		decision.apply(rows[i], asked[i], v, d.metrics)
		verdicts[asked[i].ID] = v
	}
	for _, c := range copies {
		v := verdicts[c.ID]
		if v.kind == verdictOurs {
			v.kind = verdictDuplicate // its first copy is in this very group
		}
		decision.apply(c.row, c.Claim, v, d.metrics)
	}
	slices.Sort(decision.Duplicates)
	slices.Sort(decision.Parked)
	return nil
}

type verdict struct {
	holder Claim
	kind   verdictKind
}

type verdictKind int

const (
	verdictOurs      verdictKind = iota // the row owns its id
	verdictDuplicate                    // the owner is stored, or will be by this node
	verdictPark                         // the owner may yet vanish
)

func (d *Decision) apply(number uint32, asked Claim, v verdict, m *metrics) {
	switch v.kind {
	case verdictOurs:
		return
	case verdictDuplicate:
		d.Duplicates = append(d.Duplicates, number)
	case verdictPark:
		d.Parked = append(d.Parked, number)
	}
	if v.holder.Content != asked.Content {
		m.conflicts.Inc()
	}
}

// standing says whether an event that another row's id collides with is sure to be counted.
func (d *Delivery) standing(ctx context.Context, owner Owner) (verdictKind, error) {
	switch {
	case d.quarantined[owner.Segment]:
		return verdictPark, nil
	case d.undelivered[owner.Segment]:
		return verdictDuplicate, nil
	}
	stored, err := d.ledger.segmentStored(ctx, owner.Segment)
	if err != nil {
		return 0, fmt.Errorf("ask the ledger for an owner: %w", err)
	}
	if stored {
		return verdictDuplicate, nil
	}
	return verdictPark, nil
}

// cut makes the group's batches: one, unless the rows span more months than one INSERT may touch.
func (g *group) cut(s *survey, newID func() ulid.ULID) error {
	if len(s.months) <= maxMonths && len(g.skip) == 0 {
		whole := s.whole
		whole.ID, whole.To, whole.State = g.ID, uint32(s.rows), BatchPending
		g.Batches = []*Batch{&whole}
		return nil
	}
	id := g.ID
	for chunk := range slices.Chunk(s.months, maxMonths) {
		b := &Batch{ID: id, To: uint32(g.rows()), State: BatchPending}
		if len(s.months) > maxMonths {
			b.Months = chunk
		}
		if err := g.measure(b); err != nil {
			return err
		}
		if b.Rows > 0 {
			g.Batches = append(g.Batches, b)
		}
		id = newID()
	}
	return nil
}

// save writes the decision's file anew; the old content or the new one survives a crash, never a mixture.
func (d *Delivery) save(decision *Decision) error {
	content, err := decision.encode()
	if err != nil {
		return err
	}
	if err := d.journal.WriteFile(decisionsDir, decisionName(decision.ID), content); err != nil {
		return fmt.Errorf("write decision: %w", err)
	}
	return nil
}

const (
	decisionsDir = journal.FolderDecisions
	decisionExt  = ".json"
)

func decisionName(id ulid.ULID) string { return id.String() + decisionExt }
