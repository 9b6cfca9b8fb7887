package query

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/pagetally/pagetally/schema"
)

// The model answers a request straight from the events, without buckets, bars, plans or tables.
type model []schema.Event

func (m model) matching(r *Request) model {
	from, to := r.Range.From.UnixMilli(), r.Range.To.UnixMilli()
	var out model
	for _, e := range m {
		if e.Name == schema.Engagement || e.TS < from || e.TS >= to {
			continue
		}
		if r.Path != "" && e.PathKey != r.Path || r.Name != "" && e.Name != r.Name {
			continue
		}
		out = append(out, e)
	}
	return out
}

func (m model) figures(r *Request) Figures {
	var views, events int64
	visitors := map[uint64]bool{}
	for _, e := range m {
		events += e.N
		if e.Name == schema.PageView {
			views += e.N
		}
		if e.Visitor != 0 {
			visitors[e.Visitor] = true
		}
	}
	f := zeroFigures(r.Metrics)
	setCounts(&f, r, views, events)
	if r.asks(Visitors) {
		f.set(Visitors, int64(len(visitors)))
	}
	return f
}

func (m model) groups(key func(schema.Event) string) map[string]model {
	groups := map[string]model{}
	for _, e := range m {
		groups[key(e)] = append(groups[key(e)], e)
	}
	return groups
}

// series is keyed by what a calendar says, not by edges.
func (m model) series(r *Request) map[string]Figures {
	bars := map[string]Figures{}
	for date, events := range m.groups(func(e schema.Event) string {
		t := time.UnixMilli(e.TS).In(r.Range.Loc)
		switch r.Interval {
		case Hour:
			return t.Format("2006-01-02T15:00:00Z07:00")
		case Day:
			return t.Format(time.DateOnly)
		case Week:
			return t.AddDate(0, 0, -(int(t.Weekday())+6)%7).Format(time.DateOnly)
		default:
			return t.Format("2006-01") + "-01"
		}
	}) {
		bars[date] = events.figures(r)
	}
	return bars
}

func (m model) top(r *Request) []TopRow {
	rows := []TopRow{}
	stored := map[string]string{}
	for value, events := range m.groups(dimensionOf(r.Dimension)) {
		f := events.figures(r)
		if n, _ := f.Get(r.rank()); n != 0 {
			row := TopRow{r.Dimension, valueLabel(r.Dimension, value), f}
			stored[row.Value] = value
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b TopRow) int {
		an, _ := a.Get(r.rank())
		bn, _ := b.Get(r.rank())
		return cmp.Or(cmp.Compare(bn, an), cmp.Compare(stored[a.Value], stored[b.Value]))
	})
	start := min(len(rows), (r.Page-1)*r.Limit)
	return rows[start:min(len(rows), start+r.Limit)]
}

func dimensionOf(dimension string) func(schema.Event) string {
	return func(e schema.Event) string {
		switch dimension {
		case "path":
			return e.PathKey
		case "browser":
			return e.Browser
		case "source":
			return e.Source
		case "name":
			return e.Name
		default:
			panic(dimension)
		}
	}
}

var modelZones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "America/St_Johns", "Pacific/Chatham", "Asia/Tehran", "Pacific/Kiritimati",
}

// randomEvents crowd around bucket edges, midnights of the zones and changes of clocks, where mistakes live.
func randomEvents(rng *rand.Rand, n int) []schema.Event {
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	first := at("2025-03-25T00:00:00Z").UnixMilli()
	events := make([]schema.Event, n)
	for i := range events {
		ts := first + rng.Int64N(12*24*3600*1000)
		if rng.IntN(3) == 0 {
			ts = floorBucket(ts) + rng.Int64N(3) - 1
		}
		e := &events[i]
		*e = schema.Event{Name: schema.PageView, TS: ts, ReceivedAt: ts, N: 1, Visitor: uint64(rng.IntN(40)), Scroll: schema.NoScroll}
		e.Name = pick(schema.PageView, schema.PageView, schema.PageView, "signup", "download", schema.Engagement)
		e.Path = pick("/", "/a", "/o'brien", "/x--y", "/rare"+strconv.Itoa(rng.IntN(6)))
		e.PathKey, e.Browser, e.Source = e.Path, pick("Firefox", "Chrome", ""), pick("", "google.com", "Newsletter")
		if rng.IntN(10) == 0 {
			e.N = rng.Int64N(9) - 4
			if e.N == 0 {
				e.N = schema.MaxN
			}
		}
	}
	return events
}

func randomRequest(rng *rand.Rand) (Question, []string) {
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	params := []string{"tz", modelZones[rng.IntN(len(modelZones))], "final", pick("0", "1")}
	from := at("2025-03-24T00:00:00Z").Add(time.Duration(rng.Int64N(int64(13 * 24 * time.Hour)))).Truncate(time.Millisecond)
	to := from.Add(time.Duration(rng.Int64N(int64(72*time.Hour)) >> rng.IntN(9))).Truncate(time.Millisecond)
	switch rng.IntN(3) {
	case 0:
		params = append(params, "from", from.Format(time.DateOnly), "to", to.Format(time.DateOnly))
	case 1:
		params = append(params, "from", from.Format(time.RFC3339Nano), "to", to.Format(time.RFC3339Nano))
	}
	if rng.IntN(3) == 0 {
		params = append(params, "path", pick("/", "/a", "/o'brien", "/x--y", "/nowhere"))
	}
	name := pick("", "", schema.PageView, "signup", "nothing")
	if name != "" {
		params = append(params, "name", name)
	}
	if name == "" || name == schema.PageView {
		params = append(params, "metrics", pick("views", "events", "visitors", "views,visitors", "visitors,events,views", "events,views"))
	}
	q := []Question{Count, Totals, Timeseries, Top}[rng.IntN(4)]
	switch q {
	case Timeseries:
		params = append(params, "interval", pick("hour", "day", "week", "month"))
	case Top:
		params = append(params, "dimension", pick("path", "browser", "source", "name"), "limit", pick("2", "5", "100"), "page", pick("1", "1", "2"))
	}
	return q, params
}

func TestAnswersEqualModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	s := newTables(t)
	s.now = at("2025-06-01T00:00:00Z")
	events := randomEvents(rng, 3000)
	for i := 0; i < len(events); i += 500 {
		s.insert(events[i : i+500]...)
	}
	ask := func(requests int) {
		for range requests {
			q, params := randomRequest(rng)
			r := s.request(q, "UTC", params...)
			if diff := s.compare(model(events), r); diff != "" {
				t.Fatalf("seed %d: %s %v (-model +tables)\n%s", seed, q, params, diff)
			}
		}
	}
	ask(150)
	s.merge()
	ask(60)
}

// compare asks the store and the model.
func (s *tables) compare(m model, r Request) string {
	s.t.Helper()
	ctx := context.Background()
	resolved := r
	if err := s.store.resolve(ctx, &resolved); err != nil {
		s.t.Fatal(err)
	}
	events := m.matching(&resolved)
	var want, got any
	var err error
	switch r.Question {
	case Count:
		var answer CountResult
		answer, err = s.store.Count(ctx, r)
		want, got = events.figures(&r), answer.Figures
	case Totals:
		var answer TotalsResult
		answer, err = s.store.Totals(ctx, r)
		f, totals := events.figures(&r), map[Metric]Total{}
		for _, metric := range r.Metrics {
			v, _ := f.Get(metric)
			totals[metric] = Total{Value: v}
		}
		want, got = totals, answer.Results
	case Timeseries:
		var answer TimeseriesResult
		answer, err = s.store.Timeseries(ctx, r)
		bars := events.series(&resolved)
		answered := map[string]Figures{}
		for _, bar := range answer.Results {
			date := bar.Date
			if answer.Interval == Hour { // a bar after a change of clocks may start inside its hour
				date = at(bar.Start).Format("2006-01-02T15:00:00Z07:00")
			}
			if _, ok := bars[date]; !ok { // empty bars are the store's to fill in
				bars[date] = zeroFigures(r.Metrics)
			}
			answered[date] = bar.Figures
		}
		want, got = bars, answered
	case Top:
		var answer TopResult
		answer, err = s.store.Top(ctx, r)
		want, got = events.top(&r), answer.Results
	}
	if err != nil {
		return fmt.Sprint(err)
	}
	return gocmp.Diff(want, got)
}
