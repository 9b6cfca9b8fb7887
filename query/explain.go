package query

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Explanation says how a question was answered.
type Explanation struct {
	// Plan says where each metric was read, and what covered the range.
	Plan       map[string]string    `json:"plan"`
	Statements []ExplainedStatement `json:"statements"`
}

// ExplainedStatement is one statement that was run.
type ExplainedStatement struct {
	SQL          string         `json:"sql"`
	Params       map[string]any `json:"params"`
	ReadRows     uint64         `json:"read_rows"`
	ReadBytes    uint64         `json:"read_bytes"`
	Milliseconds float64        `json:"ms"`
}

// ask runs a statement of a request.
func (s *Store) ask(ctx context.Context, r *Request, st statement, scan func(driver.Rows) error) error {
	if r.Explanation == nil {
		return s.each(ctx, st, scan)
	}
	explained := ExplainedStatement{SQL: st.sql, Params: make(map[string]any, len(st.params))}
	for _, p := range st.params {
		explained.Params[p.name] = p.value
	}
	ctx = clickhouse.Context(ctx, clickhouse.WithProgress(func(p *clickhouse.Progress) {
		explained.ReadRows += p.Rows
		explained.ReadBytes += p.Bytes
	}))
	start := time.Now()
	err := s.each(ctx, st, scan)
	explained.Milliseconds = float64(time.Since(start).Microseconds()) / 1000
	r.Explanation.Statements = append(r.Explanation.Statements, explained)
	return err
}

// explain is the plan in words.
func (p *plan) explain() map[string]string {
	words := map[string]string{
		"cover": fmt.Sprintf("%d months, %d days, %d spans of quarter hours, %d of raw events", len(p.cover.months), len(p.cover.days), len(p.cover.buckets), len(p.cover.raw)),
	}
	for metric, t := range map[string]table{"views and events": p.counts, "visitors": p.visitors, "visits": p.visits} {
		if t != "" {
			words[metric] = string(t)
		}
	}
	if p.pings {
		words["engagement"] = string(eventsTable)
	}
	if p.reads(visitsTable, bucketsTable) {
		words["visits cover"] = fmt.Sprintf("%d days built, %d cut from raw events", len(p.derived.builds), len(p.derived.days))
	}
	return words
}
