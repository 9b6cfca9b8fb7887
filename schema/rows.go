package schema

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Times that a DateTime column (the rollups' buckets) can hold, in Unix milliseconds.
const (
	minTS = 0
	maxTS = 4_260_000_000_000 // 2104-12-30
)

func monthOf(ms int64) int {
	t := time.UnixMilli(ms).UTC()
	return t.Year()*100 + int(t.Month())
}

// Rows collects events column by column for one INSERT into the inbox. It may be reset and used again; one goroutine at a time.
type Rows struct {
	texts      [][]string
	ts         []int64
	receivedAt []int64
	visitor    []uint64
	n          []int64
	engagedMS  []uint32
	scroll     []uint8
	flags      []uint16
	props      []map[string]string
	batch      []string
	idHash     []string
	content    []uint64
	owner      []string
}

// InboxColumns lists the columns of the inbox in the order in which Rows sends them.
func InboxColumns() []string {
	names := make([]string, 0, len(stringColumns)+12)
	for _, c := range stringColumns {
		names = append(names, c.name)
	}
	return append(names, "ts", "received_at", "visitor", "n", "engaged_ms", "scroll", "flags", "props", "batch", "id_hash", "content_hash", "owner")
}

// Len is the number of events collected.
func (r *Rows) Len() int { return len(r.ts) }

// Reset empties r and keeps its memory.
func (r *Rows) Reset() {
	for i := range r.texts {
		clear(r.texts[i])
		r.texts[i] = r.texts[i][:0]
	}
	r.ts, r.receivedAt, r.visitor, r.n = r.ts[:0], r.receivedAt[:0], r.visitor[:0], r.n[:0]
	r.engagedMS, r.scroll, r.flags = r.engagedMS[:0], r.scroll[:0], r.flags[:0]
	clear(r.props)
	r.props, r.batch, r.idHash, r.content, r.owner = r.props[:0], r.batch[:0], r.idHash[:0], r.content[:0], r.owner[:0]
}

// Append adds e as a row of batch. owner (SEGMENT:INDEX) says which journaled event the row is; it is stored for events with an id.
func (r *Rows) Append(e *Event, batch, owner string) {
	if r.texts == nil {
		r.texts = make([][]string, len(stringColumns))
	}
	for i := range stringColumns {
		r.texts[i] = append(r.texts[i], *stringColumns[i].of(e))
	}
	r.ts = append(r.ts, e.TS)
	r.receivedAt = append(r.receivedAt, e.ReceivedAt)
	r.visitor = append(r.visitor, e.Visitor)
	r.n = append(r.n, e.N)
	r.engagedMS = append(r.engagedMS, e.EngagedMS)
	r.scroll = append(r.scroll, e.Scroll)
	r.flags = append(r.flags, e.Flags)
	r.props = append(r.props, e.propMap())
	r.batch = append(r.batch, batch)
	if hash, ok := e.IDHash(); ok {
		r.idHash = append(r.idHash, string(hash[:]))
		r.content = append(r.content, e.ContentHash())
		r.owner = append(r.owner, owner)
		return
	}
	r.idHash, r.content, r.owner = append(r.idHash, ""), append(r.content, 0), append(r.owner, "")
}

func (e *Event) propMap() map[string]string {
	if len(e.Props) == 0 {
		return nil
	}
	m := make(map[string]string, len(e.Props))
	for _, p := range e.Props {
		m[p.Key] = p.Value
	}
	return m
}

// Destination is a table that events can be inserted into, with the part of the inbox's columns that it takes.
type Destination struct {
	table   string
	columns []string // names in the table
	from    []string // names in the inbox, column by column
}

// The destinations of events. Only ToInbox feeds the views; the other two are for filling in what is missing there.
var (
	ToInbox    = Destination{table: Inbox, columns: InboxColumns(), from: InboxColumns()}
	ToEvents   = Destination{table: "events", columns: eventsColumns(), from: eventsColumns()}
	ToEventIDs = Destination{
		table:   "event_ids",
		columns: []string{"id", "site", "owner", "content", "received_at"},
		from:    []string{"id_hash", "site", "owner", "content_hash", "received_at"},
	}
)

// eventsColumns are the inbox's columns less those that only event_ids takes.
func eventsColumns() []string {
	return slices.DeleteFunc(InboxColumns(), func(name string) bool {
		return name == "id_hash" || name == "content_hash" || name == "owner"
	})
}

// In is the same destination under another table's name: a copy of it.
func (d Destination) In(table string) Destination {
	d.table = table
	return d
}

// Insert sends r as one block into the inbox. Settings and query id travel in ctx.
func (r *Rows) Insert(ctx context.Context, conn driver.Conn, to Destination) error {
	batch, err := to.Prepare(ctx, conn)
	if err != nil {
		return err
	}
	defer func() { _ = batch.Close() }()
	if err := r.AppendTo(batch, to); err != nil {
		return err
	}
	return batch.Send()
}

// Prepare opens an INSERT. All that AppendTo adds to it until Send is one block.
func (d Destination) Prepare(ctx context.Context, conn driver.Conn) (driver.Batch, error) {
	return conn.PrepareBatch(ctx, "INSERT INTO "+d.table+" ("+strings.Join(d.columns, ", ")+")")
}

// AppendTo moves what r holds to the end of the block of batch, which to has prepared, and empties r. A large block is best built
// from small r, since r holds every value a second time.
func (r *Rows) AppendTo(batch driver.Batch, to Destination) error {
	if r.Len() == 0 {
		return nil
	}
	all := r.columns()
	for i, name := range to.from {
		if err := batch.Column(i).Append(all[slices.Index(inboxColumns, name)]); err != nil {
			return fmt.Errorf("append %s: %w", name, err)
		}
	}
	r.Reset()
	return nil
}

var inboxColumns = InboxColumns()

func (r *Rows) columns() []any {
	columns := make([]any, 0, len(stringColumns)+12)
	for i := range stringColumns {
		columns = append(columns, r.texts[i])
	}
	return append(columns, r.ts, r.receivedAt, r.visitor, r.n, r.engagedMS, r.scroll, r.flags, r.props, r.batch, r.idHash, r.content, r.owner)
}
