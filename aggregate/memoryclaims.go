package aggregate

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/ext"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/oklog/ulid/v2"
)

// lookupChunk bounds the ids of one look-up in `event_ids`; 10,000 of them make a query of 200 KB.
const lookupChunk = 10_000

// MemoryClaims keeps the newest claims in memory and asks the `event_ids` table for the rest. It serves one node: its own journal and
// the table together hold every id of the window, so a look-up that finds nothing proves the id is free.
//
// Only Delivery.Run's goroutine may use it.
type MemoryClaims struct {
	conn   driver.Conn
	window time.Duration
	limit  int
	now    func() time.Time

	// pinned reports segments whose ids are not in the table yet: their claims are never forgotten.
	pinned func(ulid.ULID) bool

	held map[[16]byte]Claim
	// order lists claims by the time they were learned, oldest first; forgetting starts at its front.
	order []Claim
	// completeSince is the receive time from which on every stored id is in held; before it the table must be asked.
	completeSince int64
}

// NewMemoryClaims returns an empty store for about limit claims (some 150 bytes each). Above the limit the oldest are forgotten; they
// are then found in the table, where they are kept for window and a day.
func NewMemoryClaims(conn driver.Conn, window time.Duration, limit int) *MemoryClaims {
	return &MemoryClaims{
		conn: conn, window: window, limit: limit, now: time.Now,
		pinned: func(ulid.ULID) bool { return false },
		held:   make(map[[16]byte]Claim),
	}
}

// Load fills the store with the newest ids of the table.
func (m *MemoryClaims) Load(ctx context.Context) error {
	from := m.now().Add(-m.window)
	rows, err := m.conn.Query(ctx, `SELECT id, owner, content, received_at FROM event_ids
		WHERE received_at >= {from:DateTime64(3, 'UTC')} ORDER BY received_at DESC LIMIT {limit:UInt64}`,
		fromTime(from), clickhouse.Named("limit", fmt.Sprint(m.limit)))
	if err != nil {
		return fmt.Errorf("load claims: %w", err)
	}
	found, err := scanClaims(rows)
	if err != nil {
		return fmt.Errorf("load claims: %w", err)
	}
	m.completeSince = from.UnixMilli()
	if len(found) == m.limit {
		m.completeSince = found[len(found)-1].ReceivedAt + 1
	}
	for i := len(found) - 1; i >= 0; i-- {
		m.learn(found[i])
	}
	return nil
}

// Claim implements Claims.
func (m *MemoryClaims) Claim(ctx context.Context, asked []Claim) ([]Claim, error) {
	if err := m.lookUp(ctx, asked); err != nil {
		return nil, err
	}
	holders := make([]Claim, len(asked))
	for i, claim := range asked {
		held, ok := m.held[claim.ID]
		if !ok {
			m.learn(claim)
			held = claim
		}
		holders[i] = held
	}
	m.forget()
	return holders, nil
}

// Assert implements Claims.
func (m *MemoryClaims) Assert(_ context.Context, claims []Claim) error {
	for _, claim := range claims {
		m.learn(claim)
	}
	return nil
}

// Release implements Claims.
func (m *MemoryClaims) Release(_ context.Context, claims []Claim) error {
	for _, claim := range claims {
		if m.held[claim.ID].Owner == claim.Owner {
			delete(m.held, claim.ID)
		}
	}
	return nil
}

func (m *MemoryClaims) learn(claim Claim) {
	if held, ok := m.held[claim.ID]; !ok || held.Owner != claim.Owner {
		m.order = append(m.order, claim)
	}
	m.held[claim.ID] = claim
}

// forget drops the oldest claims above the limit, save those that the table does not have yet.
func (m *MemoryClaims) forget() {
	for range m.order {
		if len(m.held) <= m.limit {
			return
		}
		claim := m.order[0]
		m.order = m.order[1:]
		switch {
		case m.held[claim.ID].Owner != claim.Owner: // released, or claimed anew since
		case m.pinned(claim.Owner.Segment):
			m.order = append(m.order, claim)
		default:
			m.completeSince = max(m.completeSince, claim.ReceivedAt+1)
			delete(m.held, claim.ID)
		}
	}
}

// lookUp learns from the table whichever asked ids are not held, if the table may know more than memory does. The window of an id ends
// with the event that asks for it, which may have waited in the journal for long.
func (m *MemoryClaims) lookUp(ctx context.Context, asked []Claim) error {
	since := m.since(asked)
	if m.completeSince <= since.UnixMilli() {
		return nil
	}
	var unknown []string
	for _, claim := range asked {
		if _, ok := m.held[claim.ID]; !ok {
			unknown = append(unknown, string(claim.ID[:]))
		}
	}
	for len(unknown) > 0 {
		chunk := unknown[:min(len(unknown), lookupChunk)]
		unknown = unknown[len(chunk):]
		found, err := m.ask(ctx, chunk, since)
		if err != nil {
			return err
		}
		for _, claim := range found {
			m.learn(claim)
		}
	}
	return nil
}

// since is when the window of the oldest of the asked claims begins.
func (m *MemoryClaims) since(asked []Claim) time.Time {
	oldest := m.now()
	for _, claim := range asked {
		if at := time.UnixMilli(claim.ReceivedAt); at.Before(oldest) {
			oldest = at
		}
	}
	return oldest.Add(-m.window)
}

func (m *MemoryClaims) ask(ctx context.Context, ids []string, since time.Time) ([]Claim, error) {
	table, err := ext.NewTable("asked", ext.Column("id", "FixedString(16)"))
	if err != nil {
		return nil, fmt.Errorf("build id list: %w", err)
	}
	for _, id := range ids {
		if err := table.Append(id); err != nil {
			return nil, fmt.Errorf("build id list: %w", err)
		}
	}
	rows, err := m.conn.Query(clickhouse.Context(ctx, clickhouse.WithExternalTable(table)),
		`SELECT id, owner, content, received_at FROM event_ids
		WHERE received_at >= {from:DateTime64(3, 'UTC')} AND id IN (SELECT id FROM asked)`, fromTime(since))
	if err != nil {
		return nil, fmt.Errorf("look up claims: %w", err)
	}
	found, err := scanClaims(rows)
	if err != nil {
		return nil, fmt.Errorf("look up claims: %w", err)
	}
	return found, nil
}

// fromTime is the start of a window as a query parameter.
func fromTime(t time.Time) driver.NamedValue {
	return clickhouse.Named("from", t.UTC().Format("2006-01-02 15:04:05.000"))
}

func scanClaims(rows driver.Rows) ([]Claim, error) {
	defer func() { _ = rows.Close() }()
	var list []Claim
	for rows.Next() {
		var id, owner string
		var claim Claim
		var at time.Time
		if err := rows.Scan(&id, &owner, &claim.Content, &at); err != nil {
			return nil, err
		}
		copy(claim.ID[:], id)
		claim.ReceivedAt = at.UnixMilli()
		var err error
		if claim.Owner, err = ParseOwner(owner); err != nil {
			return nil, err
		}
		list = append(list, claim)
	}
	return list, rows.Err()
}
