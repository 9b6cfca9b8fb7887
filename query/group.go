package query

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// group is a row of an answer: the bar and the values that it stands for, and its sums.
type group struct {
	start  uint32   // Unix seconds; 0 without bars
	values []string // as stored, one for each dimension
	sums
}

// groups are the rows of an answer.
type groups struct {
	r     *Request
	plan  plan
	rows  []*group
	byKey map[string]*group
	total int64 // rows without limit, if they were counted
}

func newGroups(r *Request, p plan) *groups { return &groups{r: r, plan: p, byKey: map[string]*group{}} }

func keyOf(start uint32, values []string) string {
	return fmt.Sprint(start, "\x00", strings.Join(values, "\x00"))
}

// at is the row of a key, made if it is missing and wanted.
func (g *groups) at(start uint32, values []string, make bool) *group {
	key := keyOf(start, values)
	row := g.byKey[key]
	if row == nil && make {
		row = &group{start: start, values: values}
		g.byKey[key] = row
		g.rows = append(g.rows, row)
	}
	return row
}

// alone is the sums of an answer that is grouped by nothing.
func (g *groups) alone() *sums { return &g.at(0, nil, true).sums }

// values of the rows, each once.
func (g *groups) values() [][]string {
	list, seen := [][]string{}, map[string]bool{}
	for _, row := range g.rows {
		if key := keyOf(0, row.values); !seen[key] {
			seen[key] = true
			list = append(list, row.values)
		}
	}
	return list
}

// mostVisitors is the greatest number of visitors among the rows, which decides whether they are exact.
func (g *groups) mostVisitors() (most int64) {
	for _, row := range g.rows {
		most = max(most, row.visitors, row.candidates)
	}
	return most
}

// groupsOf answers a request whose range is resolved. Of a list the page that was asked for is found first, by its order; what costs
// more is read for that alone.
func (s *Store) groupsOf(ctx context.Context, r *Request) (*groups, error) {
	if slices.Contains(r.Dimensions, dimGoal) {
		return s.groupsByGoal(ctx, r)
	}
	p, err := s.plan(ctx, r)
	if err != nil {
		return nil, err
	}
	g := newGroups(r, p)
	if r.byTime() && len(p.bars) == 0 {
		return g, nil
	}
	if err := s.fill(ctx, g); err != nil {
		return nil, err
	}
	return g, nil
}

// fill reads the sums of a planned answer.
func (s *Store) fill(ctx context.Context, g *groups) error {
	isList := len(g.r.Dimensions) > 0
	ordersHere := isList && g.r.ordersHere()
	next := familyReading{ranked: isList && !ordersHere, grow: true}
	for _, next.family = range g.r.families() {
		if err := s.read(ctx, g, next); err != nil {
			return err
		}
		if !next.ranked {
			continue
		}
		if len(g.rows) == 0 {
			return s.recount(ctx, g, next)
		}
		next = familyReading{within: g.values()}
	}
	if g.r.asks(ConversionRate) {
		if err := s.readCandidates(ctx, g); err != nil {
			return err
		}
	}
	if ordersHere {
		g.cut()
	}
	return nil
}

// plan reads what has been built for the range, if it is long enough to hold any of it.
func (s *Store) plan(ctx context.Context, r *Request) (plan, error) {
	whole := span{max(0, r.Range.From.UnixMilli()), r.Range.To.UnixMilli()}
	var known periods
	if whole.to-whole.from >= dayMS || slices.ContainsFunc(ofVisitMetrics, r.asks) {
		var err error
		if known, err = s.periods(ctx, r, whole); err != nil {
			return plan{}, err
		}
	}
	p := planOf(r, known)
	return p, p.checkKept()
}

// familyReading is what one statement adds to an answer.
type familyReading struct {
	family family
	ranked bool       // rows come ordered and cut to a page
	within [][]string // only groups of these values; nil: all
	grow   bool       // rows make groups that are not there yet
}

func (s *Store) read(ctx context.Context, g *groups, what familyReading) error {
	return s.ask(ctx, g.r, g.plan.statement(what.family, what.ranked, what.within), func(rows driver.Rows) error {
		var got sums
		var start uint32
		values := make([]string, len(g.r.Dimensions))
		var into []any
		if g.r.byTime() {
			into = append(into, &start)
		}
		for i := range values {
			into = append(into, &values[i])
		}
		for _, column := range got.columns(what.family) {
			into = append(into, column)
		}
		if what.ranked && g.r.CountRows {
			into = append(into, &g.total)
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if row := g.at(start, values, what.grow); row != nil {
			row.take(what.family, &got)
		}
		return nil
	})
}

// recount finds the number of rows when the page that was asked for lies behind the last.
func (s *Store) recount(ctx context.Context, g *groups, what familyReading) error {
	if !g.r.CountRows || g.r.Offset == 0 {
		return nil
	}
	first := newGroups(g.r, g.plan)
	first.plan.r.Offset, first.plan.r.Limit = 0, 1
	err := s.read(ctx, first, what)
	g.total = first.total
	return err
}

// readCandidates adds how many visitors could have converted: those of the same group, less what makes a conversion.
func (s *Store) readCandidates(ctx context.Context, g *groups) error {
	base := g.r.notConverting()
	reduced := func(values []string) []string {
		list := []string{}
		for i, d := range g.r.Dimensions {
			if slices.Contains(base.Dimensions, d) {
				list = append(list, values[i])
			}
		}
		return list
	}
	p, err := s.plan(ctx, &base)
	if err != nil {
		return err
	}
	could := newGroups(&base, p)
	what := familyReading{family: visitors, grow: true}
	if len(base.Dimensions) > 0 {
		for _, values := range g.values() {
			what.within = append(what.within, reduced(values))
		}
	}
	if err := s.read(ctx, could, what); err != nil {
		return err
	}
	if len(g.r.Dimensions) == 0 { // bars in which nobody converted have candidates, too
		for _, row := range could.rows {
			g.at(row.start, nil, true).candidates = row.visitors
		}
		return nil
	}
	for _, row := range g.rows {
		if from := could.at(row.start, reduced(row.values), false); from != nil {
			row.candidates = from.visitors
		}
	}
	return nil
}

// cut orders the rows and keeps the page that was asked for. Values whose number adds up to zero are not listed.
func (g *groups) cut() {
	g.rows = slices.DeleteFunc(g.rows, func(row *group) bool { return !g.r.lists(&row.sums) })
	g.r.sort(g.rows)
	g.total = int64(len(g.rows))
	from := min(len(g.rows), g.r.Offset)
	g.rows = g.rows[from:]
	if g.r.Limit > 0 {
		g.rows = g.rows[:min(len(g.rows), g.r.Limit)]
	}
}

// groupsByGoal answers goal by goal: an event may reach several.
func (s *Store) groupsByGoal(ctx context.Context, r *Request) (*groups, error) {
	at := slices.Index(r.Dimensions, dimGoal)
	all := newGroups(r, plan{sketch: valueSketch})
	for _, goal := range r.Goals {
		if !r.Filter.admits(goal) {
			continue
		}
		g, err := s.groupsOf(ctx, r.ofGoal(goal, at))
		if err != nil {
			return nil, err
		}
		all.plan = g.plan
		for _, row := range g.rows {
			if row.sums != (sums{}) {
				all.at(row.start, slices.Insert(slices.Clone(row.values), at, goal.Name), true).sums = row.sums
			}
		}
	}
	if r.asks(ConversionRate) && len(all.rows) > 0 {
		if err := s.readCandidates(ctx, all); err != nil {
			return nil, err
		}
	}
	all.cut()
	return all, nil
}
