package query

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pagetally/pagetally/schema"
)

// The model answers a request straight from the events, without buckets, bars, plans or tables.
type model struct {
	events []modelEvent
	visits []*modelVisit
}

type modelEvent struct {
	schema.Event
	visit *modelVisit // nil: the event takes no part in visits
}

type modelVisit struct {
	start, end             int64
	views, events, actions int64
	entry, exit            string
	first                  schema.Event
}

// newModel cuts events into visits by the days of a zone.
func newModel(events []schema.Event, zone *time.Location) *model {
	m := &model{events: make([]modelEvent, len(events))}
	for i, e := range events {
		m.events[i].Event = e
	}
	slices.SortFunc(m.events, func(a, b modelEvent) int {
		return cmp.Or(cmp.Compare(a.Visitor, b.Visitor), cmp.Compare(a.TS, b.TS), cmp.Compare(a.ReceivedAt, b.ReceivedAt))
	})
	day := func(ms int64) string { return time.UnixMilli(ms).In(zone).Format(time.DateOnly) }
	var current *modelVisit
	for i := range m.events {
		e := &m.events[i]
		if e.Name == schema.Engagement || e.Visitor == 0 || e.N <= 0 {
			continue
		}
		if current == nil || current.first.Visitor != e.Visitor || day(current.end) != day(e.TS) || e.TS-current.end >= 30*60*1000 {
			current = &modelVisit{start: e.TS, first: e.Event}
			m.visits = append(m.visits, current)
		}
		current.add(&e.Event)
		e.visit = current
	}
	return m
}

func (v *modelVisit) add(e *schema.Event) {
	v.end = e.TS
	v.events += e.N
	if e.Flags&schema.FlagNonInteractive == 0 {
		v.actions += e.N
	}
	if e.Name == schema.PageView {
		if v.views == 0 {
			v.entry = e.PathKey
		}
		v.views += e.N
		v.exit = e.PathKey
	}
}

// value of a dimension of an event, or of a visit alone when e is nil.
func modelValue(dimension string, e *schema.Event, v *modelVisit) string {
	if prop, ok := strings.CutPrefix(dimension, "props."); ok {
		for _, p := range e.Props {
			if p.Key == prop {
				return p.Value
			}
		}
		return ""
	}
	attribute, ofVisit := strings.CutPrefix(dimension, "visit:")
	if ofVisit || e == nil {
		e = &v.first
	}
	switch attribute {
	case "entry_page":
		return v.entry
	case "exit_page":
		return v.exit
	case "path":
		return e.PathKey
	case "name":
		return e.Name
	case "browser":
		return e.Browser
	case "source":
		return e.Source
	case "country":
		return e.Country
	}
	panic(dimension)
}

// meets says whether an event meets a filter, or a visit alone when e is nil.
func (m *model) meets(f *Filter, goals []Goal, e *schema.Event, v *modelVisit) bool {
	if f == nil {
		return true
	}
	inner := func(i int) bool { return m.meets(&f.Of[i], goals, e, v) }
	switch f.Op {
	case And:
		for i := range f.Of {
			if !inner(i) {
				return false
			}
		}
		return true
	case Or:
		for i := range f.Of {
			if inner(i) {
				return true
			}
		}
		return false
	case Not:
		return !inner(0)
	case HasDone, HasNotDone:
		done := slices.ContainsFunc(m.events, func(other modelEvent) bool {
			return other.visit == v && m.meets(&f.Of[0], goals, &other.Event, v)
		})
		return done == (f.Op == HasDone)
	}
	positive := strings.TrimSuffix(string(f.Op), "_not")
	return f.anyValue(positive, m.valuesOf(f.Dimension, goals, e, v)) != (positive != string(f.Op))
}

// valuesOf is one value, or the goals that an event reaches.
func (m *model) valuesOf(dimension string, goals []Goal, e *schema.Event, v *modelVisit) (values []string) {
	if dimension != "goal" {
		return []string{modelValue(dimension, e, v)}
	}
	for _, goal := range goals {
		if goal.Event == e.Name || goal.Page != "" && e.Name == schema.PageView && pageOfGoal(goal).MatchString(e.PathKey) {
			values = append(values, goal.Name)
		}
	}
	return values
}

func pageOfGoal(goal Goal) *regexp.Regexp {
	return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(goal.Page), `\*`, "[^/]*") + "$")
}

func (f *Filter) anyValue(op string, values []string) bool {
	for _, value := range values {
		for _, want := range f.Values {
			if f.FoldCase && op != "matches" {
				value, want = strings.ToLower(value), strings.ToLower(want)
			} else if f.FoldCase {
				want = "(?i)" + want
			}
			if op == "is" && value == want || op == "contains" && strings.Contains(value, want) || op == "matches" && regexp.MustCompile(want).MatchString(value) {
				return true
			}
		}
	}
	return false
}

// modelGroup collects what belongs to one row.
type modelGroup struct {
	views, events int64
	visitors      map[uint64]bool
	visits        map[*modelVisit]bool
	engaged       map[uint64]int64
	scroll        map[uint64]int64
}

type modelKey struct{ bar, values string }

// groups sorts events and visits into rows.
func (m *model) groups(r *Request) map[modelKey]*modelGroup {
	rows := map[modelKey]*modelGroup{}
	row := func(ms int64, values []string) *modelGroup {
		key := modelKey{values: strings.Join(values, "\x00")}
		if r.byTime() {
			key.bar = modelBar(r, ms)
		}
		if rows[key] == nil {
			rows[key] = &modelGroup{visitors: map[uint64]bool{}, visits: map[*modelVisit]bool{}, engaged: map[uint64]int64{}, scroll: map[uint64]int64{}}
		}
		return rows[key]
	}
	inRange := func(ms int64) bool { return ms >= r.Range.From.UnixMilli() && ms < r.Range.To.UnixMilli() }
	needsVisit := r.Filter.hasDone() || slices.ContainsFunc(r.dimensions(), ofVisit)
	for i := range m.events {
		e := &m.events[i]
		if needsVisit && e.visit == nil || !m.meets(r.Filter, r.Goals, &e.Event, e.visit) || r.Path != "" && e.PathKey != r.Path {
			continue
		}
		ping := e.Name == schema.Engagement
		if r.Name != "" && e.Name != r.Name && !ping {
			continue
		}
		for _, values := range m.valuesOfRow(r, &e.Event, e.visit) {
			switch {
			case ping && inRange(e.TS) && e.Visitor != 0:
				g := row(e.TS, values)
				g.engaged[e.Visitor] += int64(e.EngagedMS)
				if _, seen := g.scroll[e.Visitor]; !seen {
					g.scroll[e.Visitor] = -1
				}
				if e.Scroll <= 100 {
					g.scroll[e.Visitor] = max(g.scroll[e.Visitor], int64(e.Scroll))
				}
			case !ping:
				if inRange(e.TS) {
					row(e.TS, values).count(&e.Event)
				}
				if e.visit != nil && inRange(e.visit.start) && !visitsAlone(r) {
					row(e.visit.start, values).visits[e.visit] = true
				}
			}
		}
	}
	if visitsAlone(r) {
		for _, v := range m.visits {
			if inRange(v.start) && m.meets(r.Filter, r.Goals, nil, v) {
				for _, values := range m.valuesOfRow(r, nil, v) {
					row(v.start, values).visits[v] = true
				}
			}
		}
	}
	return rows
}

// visitsAlone: nothing of the question is known of events only.
func visitsAlone(r *Request) bool {
	return r.Path == "" && r.Name == "" && !r.Filter.hasDone() && !slices.ContainsFunc(r.dimensions(), ofEvents)
}

// valuesOfRow has more than one element only with goals.
func (m *model) valuesOfRow(r *Request, e *schema.Event, v *modelVisit) [][]string {
	rows := [][]string{nil}
	for _, d := range r.Dimensions {
		var next [][]string
		for _, row := range rows {
			for _, value := range m.valuesOf(d, r.Goals, e, v) {
				next = append(next, append(slices.Clone(row), value))
			}
		}
		rows = next
	}
	return rows
}

func (g *modelGroup) count(e *schema.Event) {
	g.events += e.N
	if e.Name == schema.PageView {
		g.views += e.N
	}
	if e.Visitor != 0 {
		g.visitors[e.Visitor] = true
	}
}

// modelBar is keyed by what a calendar says, not by edges.
func modelBar(r *Request, ms int64) string {
	t := time.UnixMilli(ms).In(r.Range.Loc)
	switch r.Interval {
	case Minute:
		return t.Format("2006-01-02T15:04:00Z07:00")
	case Hour:
		return t.Format("2006-01-02T15:00:00Z07:00")
	case Day:
		return t.Format(time.DateOnly)
	case Week:
		return t.AddDate(0, 0, -(int(t.Weekday())-max(1, int(r.WeekStart))+7)%7).Format(time.DateOnly)
	case Month:
		return t.Format("2006-01") + "-01"
	default:
		return t.Format("2006") + "-01-01"
	}
}

// sums are those of the rows, conversions included.
func (m *model) sums(r *Request) map[modelKey]sums {
	all := map[modelKey]sums{}
	candidates := map[modelKey]int{}
	if r.asks(ConversionRate) {
		base := r.notConverting()
		for key, g := range m.groups(&base) {
			candidates[key] = len(g.visitors)
		}
	}
	for key, g := range m.groups(r) {
		s := sums{views: g.views, events: g.events, visitors: int64(len(g.visitors)), visits: int64(len(g.visits))}
		for v := range g.visits {
			s.visitViews += v.views
			s.durationMS += v.end - v.start
			if v.actions <= 1 {
				s.bounces++
			}
		}
		for _, ms := range g.engaged {
			if s.engagedMS += ms; ms > 0 {
				s.engaged++
			}
		}
		for _, depth := range g.scroll {
			if depth >= 0 {
				s.scroll += depth
				s.scrolled++
			}
		}
		s.candidates = int64(candidates[reducedKey(r, key)])
		all[key] = s
	}
	return all
}

// reducedKey is that of a row less goals and names.
func reducedKey(r *Request, key modelKey) modelKey {
	var kept []string
	for i, value := range strings.Split(key.values, "\x00") {
		if i < len(r.Dimensions) && r.Dimensions[i] != "goal" && r.Dimensions[i] != "name" {
			kept = append(kept, value)
		}
	}
	return modelKey{key.bar, strings.Join(kept, "\x00")}
}

func (m *model) total(r *Request) Figures {
	s := m.sums(r)[modelKey{}]
	if base := r.notConverting(); r.asks(ConversionRate) {
		s.candidates = m.sumOf(&base).visitors
	}
	return s.figures(r.Metrics)
}

func (m *model) sumOf(r *Request) sums { return m.sums(r)[modelKey{}] }

func (m *model) series(r *Request) map[string]Figures {
	bars := map[string]Figures{}
	for key, s := range m.sums(r) {
		bars[key.bar] = s.figures(r.Metrics)
	}
	return bars
}

func (m *model) top(r *Request) (rows []TopRow, total int64) {
	var groups []*group
	for key, s := range m.sums(r) {
		if r.lists(&s) {
			groups = append(groups, &group{values: strings.Split(key.values, "\x00"), sums: s})
		}
	}
	r.sort(groups)
	total = int64(len(groups))
	start := min(len(groups), r.Offset)
	rows = []TopRow{}
	for _, g := range groups[start:min(len(groups), start+r.Limit)] {
		rows = append(rows, TopRow{r.Dimensions, g.labels(r.Dimensions), g.figures(r.Metrics)})
	}
	return rows, total
}
