package query

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/pagetally/pagetally/schema"
)

var modelZones = []string{
	"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu", "America/St_Johns", "Pacific/Chatham", "Asia/Tehran",
	"Pacific/Kiritimati", "Australia/Lord_Howe",
}

var modelGoals = []Goal{{Name: "Signup", Event: "signup"}, {Name: "Visit rare", Page: "/rare*"}, {Name: "Home", Page: "/"}}

// randomEvents crowd around bucket edges, midnights of the zones and changes of clocks, where mistakes live.
func randomEvents(rng *rand.Rand, n int) []schema.Event {
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	first := at("2025-03-25T00:00:00Z").UnixMilli()
	events := make([]schema.Event, n)
	for i := range events {
		ts := first + rng.Int64N(15*24*3600*1000)
		if rng.IntN(3) == 0 {
			ts = floorBucket(ts) + rng.Int64N(3) - 1
		}
		if i > 0 && rng.IntN(2) == 0 { // soon after another, so that visits have several events
			ts = events[rng.IntN(i)].TS + rng.Int64N(40*60*1000)
		}
		e := &events[i]
		*e = schema.Event{Name: schema.PageView, TS: ts, ReceivedAt: ts + int64(i), N: 1, Visitor: uint64(rng.IntN(40)), Scroll: schema.NoScroll}
		e.Name = pick(schema.PageView, schema.PageView, schema.PageView, "signup", "download", schema.Engagement)
		e.Path = pick("/", "/a", "/o'brien", "/x--y", "/rare"+strconv.Itoa(rng.IntN(6)))
		e.PathKey, e.Browser, e.Source = e.Path, pick("Firefox", "Chrome", ""), pick("", "google.com", "Newsletter")
		e.Country = pick("DE", "US", "")
		if plan := pick("", "free", "Pro"); plan != "" {
			e.Props = []schema.Prop{{Key: "plan", Value: plan}}
		}
		switch {
		case e.Name == schema.Engagement:
			e.EngagedMS, e.Scroll = uint32(rng.IntN(60_000)), uint8(rng.IntN(101))
			if rng.IntN(3) == 0 {
				e.EngagedMS, e.Scroll = 0, schema.NoScroll
			}
		case rng.IntN(10) == 0:
			e.N = rng.Int64N(9) - 4
			if e.N == 0 {
				e.N = schema.MaxN
			}
		case rng.IntN(10) == 0:
			e.Flags = schema.FlagNonInteractive
		}
	}
	return events
}

// randomFilter is JSON as callers write it.
func randomFilter(rng *rand.Rand, depth int, done bool) any {
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	if depth < 2 && rng.IntN(3) == 0 {
		switch op := pick("and", "or", "not", "has_done", "has_not_done"); {
		case op == "not":
			return []any{op, randomFilter(rng, depth+1, done)}
		case op == "and" || op == "or":
			return []any{op, []any{randomFilter(rng, depth+1, done), randomFilter(rng, depth+1, done)}}
		case !done:
			return []any{op, randomFilter(rng, depth+1, true)}
		}
	}
	dimension := pick("path", "name", "browser", "source", "country", "props.plan", "entry_page", "exit_page", "visit:source", "goal")
	if done {
		dimension = pick("path", "name", "browser", "props.plan", "goal")
	}
	values := map[string][]string{
		"path": {"/", "/a", "/o'brien", "/rare1"}, "name": {"pageview", "signup", "engagement", "x"}, "browser": {"Firefox", "Chrome", "(not set)"},
		"source": {"Direct / None", "google.com"}, "visit:source": {"Direct / None", "Newsletter"}, "country": {"DE", "(not set)"}, "props.plan": {"free", "Pro", "(not set)"},
		"entry_page": {"/", "/a", "(not set)"}, "exit_page": {"/a", "/x--y"}, "goal": {"Signup", "Home", "Visit rare", "none"},
	}[dimension]
	first := rng.IntN(len(values))
	chosen := values[first : first+1+rng.IntN(len(values)-first)]
	op := pick("is", "is", "is_not", "contains", "contains_not", "matches", "matches_not")
	switch op {
	case "contains", "contains_not":
		chosen = []string{pick("a", "o'b", "FIRE", "r")}
	case "matches", "matches_not":
		chosen = []string{pick("^/a$", "r[0-9e]+", "^$", "(?i)chrome|free")}
	}
	filter := []any{op, dimension, chosen}
	if rng.IntN(4) == 0 {
		filter = append(filter, map[string]bool{"case_sensitive": rng.IntN(2) == 0})
	}
	return filter
}

func randomRequest(rng *rand.Rand) (Question, []string) {
	pick := func(words ...string) string { return words[rng.IntN(len(words))] }
	params := []string{"tz", modelZones[rng.IntN(len(modelZones))], "final", pick("0", "1")}
	from := at("2025-03-24T00:00:00Z").Add(time.Duration(rng.Int64N(int64(16 * 24 * time.Hour)))).Truncate(time.Millisecond)
	to := from.Add(time.Duration(rng.Int64N(int64(200*time.Hour)) >> rng.IntN(9))).Truncate(time.Millisecond)
	switch rng.IntN(3) {
	case 0:
		params = append(params, "from", from.Format(time.DateOnly), "to", to.Format(time.DateOnly))
	case 1:
		params = append(params, "from", from.Format(time.RFC3339Nano), "to", to.Format(time.RFC3339Nano))
	}
	if rng.IntN(4) == 0 {
		params = append(params, "path", pick("/", "/a", "/o'brien", "/x--y", "/nowhere"))
	}
	if rng.IntN(2) == 0 {
		text, err := json.Marshal([]any{randomFilter(rng, 0, false)})
		if err != nil {
			panic(err)
		}
		params = append(params, "filters", string(text))
	}
	if name := pick("", "", "", schema.PageView, "signup", "nothing"); name != "" {
		params = append(params, "name", name)
	}
	all := slices.Clone(metrics)
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	params = append(params, "metrics", strings.Join(names(all[:1+rng.IntN(4)]), ","))
	q := []Question{Count, Totals, Timeseries, Top}[rng.IntN(4)]
	switch q {
	case Timeseries:
		params = append(params, "interval", pick("hour", "day", "week", "month", "year"), "week_start", pick("monday", "sunday"))
	case Top:
		dimension := pick("path", "browser", "source", "name", "country", "props.plan", "entry_page", "exit_page", "visit:source", "goal", "path,browser", "source,entry_page", "goal,country")
		params = append(params, "dimension", dimension, "limit", pick("2", "5", "100"), "page", pick("1", "1", "2"))
	}
	return q, params
}

// Whatever is asked, the tables say what the events add up to. What is refused is refused for a reason.
func TestAnswersEqualModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, zone := range []string{"UTC", "America/St_Johns", "Australia/Lord_Howe"} {
		s := newTables(t)
		s.now = at("2025-06-01T00:00:00Z")
		events := randomEvents(rng, 1500)
		for i := 0; i < len(events); i += 500 {
			s.insert(events[i : i+500]...)
		}
		questions := 40
		if os.Getenv("PAGETALLY_TORTURE") != "" {
			questions = 2000
		}
		s.askModel(seed, rng, newModel(events, mustZone(t, zone)), zone, questions)
		s.build(zone)
		s.requireBuildsRead(zone)
		s.askModel(seed, rng, newModel(events, mustZone(t, zone)), zone, questions)
		// What comes late is in the answers at once, though periods were built without it.
		late := randomEvents(rng, 40)
		s.insert(late...)
		events = append(events, late...)
		s.askModel(seed, rng, newModel(events, mustZone(t, zone)), zone, questions/2)
		s.build(zone)
		s.merge()
		s.askModel(seed, rng, newModel(events, mustZone(t, zone)), zone, questions/2)
	}
}

// requireBuildsRead holds that built periods are read.
func (s *tables) requireBuildsRead(zone string) {
	s.t.Helper()
	got, err := s.store.Count(context.Background(), s.request(Count, zone, "from", "2025-03-28T00:00:00Z", "to", "2025-05-02T00:00:00Z", "metrics", "views,visits", "explain", "1"))
	if err != nil {
		s.t.Fatal(err)
	}
	plan := got.Meta.Explanation.Plan
	if want := "1 months, 5 days, 0 spans of quarter hours, 0 of raw events"; plan["cover"] != want || plan["visits cover"] != "36 days built, 0 cut from raw events" && zone != "UTC" {
		s.t.Errorf("the plan is %v, want %s and all days of visits built", plan, want)
	}
}

func (s *tables) askModel(seed uint64, rng *rand.Rand, m *model, zone string, questions int) {
	s.t.Helper()
	answered := 0
	for range questions {
		q, params := randomRequest(rng)
		r, err := s.parse(q, zone, params...)
		if err != nil {
			if reasons := []string{"metrics"}; !slices.ContainsFunc(reasons, func(field string) bool { return strings.HasPrefix(err.Error(), field+": ") }) {
				s.t.Fatalf("seed %d: %s %v: %v", seed, q, params, err)
			}
			continue
		}
		answered++
		if diff := s.compare(m, r); diff != "" {
			s.t.Fatalf("seed %d: site's zone %s: %s %q (-model +tables)\n%s", seed, zone, q, params, diff)
		}
	}
	if answered < questions/3 {
		s.t.Errorf("%d of %d questions were answered, which shows little", answered, questions)
	}
}

// compare asks the store and the model.
func (s *tables) compare(m *model, r Request) string {
	s.t.Helper()
	ctx := context.Background()
	resolved := r
	if err := s.store.resolve(ctx, &resolved); err != nil {
		s.t.Fatal(err)
	}
	var want, got any
	var err error
	switch r.Question {
	case Count:
		var answer CountResult
		answer, err = s.store.Count(ctx, r)
		want, got = m.total(&resolved), answer.Figures
	case Totals:
		var answer TotalsResult
		answer, err = s.store.Totals(ctx, r)
		f, totals := m.total(&resolved), map[Metric]Total{}
		for _, metric := range r.Metrics {
			totals[metric] = Total{Value: f.Value(metric)}
		}
		want, got = totals, answer.Results
	case Timeseries:
		var answer TimeseriesResult
		answer, err = s.store.Timeseries(ctx, r)
		want, got = m.filledSeries(&resolved, answer), answer.byDate(&r)
	case Top:
		var answer TopResult
		answer, err = s.store.Top(ctx, r)
		rows, total := m.top(&resolved)
		if err == nil && *answer.Meta.TotalRows != total {
			return fmt.Sprintf("%d rows in all, want %d", *answer.Meta.TotalRows, total)
		}
		want, got = rows, answer.Results
	}
	if err != nil {
		return fmt.Sprint(err)
	}
	return gocmp.Diff(want, got)
}

// date is a bar's as the model has it: after a change of clocks a bar may start inside its hour.
func (b SeriesBar) dateOf(r *Request) string {
	if r.Interval == Hour {
		return at(b.Start).Format("2006-01-02T15:00:00Z07:00")
	}
	return b.Date
}

func (t TimeseriesResult) byDate(r *Request) map[string]Figures {
	bars := map[string]Figures{}
	for _, bar := range t.Results {
		bars[bar.dateOf(r)] = bar.Figures
	}
	return bars
}

// filledSeries has the bars of the model, and those without events that the answer should have, too.
func (m *model) filledSeries(r *Request, answer TimeseriesResult) map[string]Figures {
	bars := m.series(r)
	candidates := map[string]Figures{}
	if r.asks(ConversionRate) {
		base := r.notConverting()
		candidates = m.series(&base)
	}
	for _, bar := range answer.Results {
		date := bar.dateOf(r)
		if _, ok := bars[date]; ok {
			continue
		}
		var empty sums
		if f, ok := candidates[date]; ok {
			empty.candidates = *f.Visitors
		}
		bars[date] = empty.figures(r.Metrics)
	}
	return bars
}
