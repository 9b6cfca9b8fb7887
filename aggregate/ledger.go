package aggregate

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/oklog/ulid/v2"
)

// entry is one row of the ledger: what a group is about to do (intent) or has done (stored). The numbers of a stored entry balance
// by themselves: accepted = stored + duplicate + parked + quarantined + forgotten. Rows that come back from parking or quarantine
// were accepted before, so their entry takes them out of that account instead: a negative number.
type entry struct {
	group    ulid.ULID
	state    string // intent, stored
	segments []string
	touched  []SiteDay
	rows     uint64
	n        int64
	oldest   time.Time
	outcome  string

	accepted, stored, duplicate, parked, quarantined, forgotten int64
}

// ledger reads and writes the table of that name. Writing an entry twice leaves one row.
type ledger struct {
	conn Conn
	node string
	now  func() time.Time
	// storedSegments remembers segments seen as stored, which they stay.
	storedSegments *lru.Cache[ulid.ULID, struct{}]
}

const storedSegmentsRemembered = 4096

func newLedger(conn Conn, node string, now func() time.Time) *ledger {
	return &ledger{conn: conn, node: node, now: now, storedSegments: newCache[ulid.ULID](storedSegmentsRemembered)}
}

// newCache returns a set that forgets what was not asked for longest; size is a positive constant.
func newCache[K comparable](size int) *lru.Cache[K, struct{}] {
	cache, err := lru.New[K, struct{}](size)
	if err != nil {
		panic(err)
	}
	return cache
}

func (l *ledger) write(ctx context.Context, e entry) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"async_insert": 0, "insert_deduplicate": 0, "deduplicate_insert": "disable"}))
	batch, err := l.conn.PrepareBatch(ctx, `INSERT INTO ledger (batch, state, node, at, segments, touched, rows, n, oldest, outcome,
		accepted, stored, duplicate, parked, quarantined, undone, forgotten)`)
	if err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	defer func() { _ = batch.Close() }()
	touched := make([]map[string]any, len(e.touched))
	for i, t := range e.touched {
		day, err := time.Parse(time.DateOnly, t.Day)
		if err != nil {
			return fmt.Errorf("write ledger: %w", err)
		}
		touched[i] = map[string]any{"site": t.Site, "day": day}
	}
	err = batch.Append(e.group.String(), e.state, l.node, l.now().UTC(), e.segments, touched, e.rows, e.n, e.oldest.UTC(), e.outcome,
		e.accepted, e.stored, e.duplicate, e.parked, e.quarantined, int64(0), e.forgotten)
	if err == nil {
		err = batch.Send()
	}
	if err != nil {
		return fmt.Errorf("write ledger: %w", err)
	}
	return nil
}

// isStored reports whether the group's stored entry is there.
func (l *ledger) isStored(ctx context.Context, group ulid.ULID) (bool, error) {
	var n uint64
	err := l.conn.QueryRow(ctx, `SELECT count() FROM ledger WHERE batch = {batch:String} AND state = 'stored'`,
		clickhouse.Named("batch", group.String())).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("read ledger: %w", err)
	}
	return n > 0, nil
}

// segmentStored reports whether a group with the segment is stored, on any node. Groups are named after their segments are made, so
// their names sort behind the segment's.
func (l *ledger) segmentStored(ctx context.Context, segment ulid.ULID) (bool, error) {
	if l.storedSegments.Contains(segment) {
		return true, nil
	}
	var n uint64
	err := l.conn.QueryRow(ctx, `SELECT count() FROM ledger WHERE batch >= {segment:String} AND state = 'stored' AND has(segments, {segment:String})`,
		clickhouse.Named("segment", segment.String())).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("read ledger: %w", err)
	}
	if n > 0 {
		l.storedSegments.Add(segment, struct{}{})
	}
	return n > 0, nil
}

// intent is the entry written before the group's first INSERT.
func (d *Decision) intent() entry {
	e := d.entry("intent")
	for _, b := range d.Batches {
		e.rows, e.n = e.rows+uint64(b.Rows), e.n+b.N
	}
	return e
}

// closing is the entry written once every batch of the group is stored or set aside.
func (d *Decision) closing() entry {
	e := d.entry("stored")
	stored, n := d.stored()
	e.rows, e.n, e.outcome = uint64(stored), n, d.outcome()
	e.stored = stored
	e.duplicate = int64(len(d.Duplicates))
	e.parked = int64(len(d.Parked))
	e.quarantined = int64(len(d.quarantined()))
	for _, s := range d.Segments {
		switch s.Kind {
		case kindParked:
			e.parked -= int64(s.Rows)
		case kindRetried:
			e.quarantined -= int64(s.Rows)
		default:
			e.accepted += int64(s.Rows)
		}
	}
	return e
}

func (d *Decision) entry(state string) entry {
	e := entry{group: d.ID, state: state, touched: d.Touched, oldest: d.Oldest}
	for _, s := range d.Segments {
		e.segments = append(e.segments, s.ID.String())
	}
	return e
}

// outcome is the least certain one of the group's batches.
func (d *Decision) outcome() string {
	worst := outcomeCertain
	for _, b := range d.Batches {
		switch b.Outcome {
		case outcomeFilled:
			return outcomeFilled
		case outcomeChecked:
			worst = outcomeChecked
		}
	}
	return worst
}
