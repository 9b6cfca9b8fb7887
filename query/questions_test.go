package query

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pagetally/pagetally/schema"
)

// eventsOfTwoVisits are a reader who signs up and one who leaves, on the same day, and one who came the day before.
func eventsOfTwoVisits() []schema.Event {
	one := func(ts, name, path, source string, visitor uint64) schema.Event {
		e := view(ts, path)
		e.Name, e.Source, e.Visitor = name, source, visitor
		return e
	}
	return []schema.Event{
		one("2025-05-04T10:00:00Z", schema.PageView, "/", "google.com", 3),
		one("2025-05-05T10:00:00Z", schema.PageView, "/", "google.com", 1),
		one("2025-05-05T10:01:00Z", schema.PageView, "/rare1", "", 1),
		one("2025-05-05T10:02:00Z", "signup", "/rare1", "", 1),
		one("2025-05-05T12:00:00Z", schema.PageView, "/a", "", 2),
	}
}

func (s *tables) topRows(params ...string) [][]string {
	s.t.Helper()
	got, err := s.store.Top(context.Background(), s.request(Top, "UTC", params...))
	if err != nil {
		s.t.Fatal(err)
	}
	rows := [][]string{}
	for _, row := range got.Results {
		rows = append(rows, append(row.Values, figureCells(row.Figures)...))
	}
	return rows
}

func TestListsOfVisitsAndGoals(t *testing.T) {
	s := newTables(t)
	s.insert(eventsOfTwoVisits()...)
	day := []string{"from", "2025-05-05", "to", "2025-05-05"}
	tests := []struct {
		params []string
		want   [][]string // values, then metrics in the order of their list
	}{
		{[]string{"dimension", "entry_page", "metrics", "visits,bounce_rate,visit_duration,views_per_visit"},
			[][]string{{"/", "1", "2", "0", "120"}, {"/a", "1", "1", "100", "0"}}},
		{[]string{"dimension", "exit_page", "metrics", "views,visits"}, [][]string{{"/rare1", "2", "1"}, {"/a", "1", "1"}}},
		{[]string{"dimension", "source", "metrics", "visits"}, [][]string{{"Direct / None", "1"}, {"google.com", "1"}}},
		// An event says where its visitor came from just then, the visit where it began.
		{[]string{"dimension", "source", "metrics", "views"}, [][]string{{"Direct / None", "2"}, {"google.com", "1"}}},
		{[]string{"dimension", "visit:source", "metrics", "views"}, [][]string{{"google.com", "2"}, {"Direct / None", "1"}}},
		{[]string{"dimension", "goal", "metrics", "visitors,conversion_rate"},
			[][]string{{"Home", "1", "50"}, {"Signup", "1", "50"}, {"Visit rare", "1", "50"}}},
		{[]string{"dimension", "goal,visit:source", "metrics", "visitors,conversion_rate"},
			[][]string{{"Home", "google.com", "1", "100"}, {"Signup", "google.com", "1", "100"}, {"Visit rare", "google.com", "1", "100"}}},
		{[]string{"dimension", "path", "metrics", "visitors,conversion_rate", "filters", `[["is","goal",["Signup"]]]`}, [][]string{{"/rare1", "1", "100"}}},
		{[]string{"dimension", "path", "metrics", "views", "filters", `[["has_done",["is","goal",["Signup"]]]]`}, [][]string{{"/", "1"}, {"/rare1", "1"}}},
		{[]string{"dimension", "path", "order", "-path"}, [][]string{{"/rare1", "1", "1"}, {"/a", "1", "1"}, {"/", "1", "1"}}},
		{[]string{"dimension", "path", "order", "-views,path", "limit", "2"}, [][]string{{"/", "1", "1"}, {"/a", "1", "1"}}},
		{[]string{"dimension", "path", "metrics", "views,visits", "order", "-visits,-path", "limit", "1"}, [][]string{{"/rare1", "1", "1"}}},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, s.topRows(append(day, test.params...)...)); diff != "" {
			t.Errorf("%q (-want +got)\n%s", test.params, diff)
		}
	}
}

// Nobody reaches a goal that the site does not have, whatever is asked of those who did.
func TestUnknownGoal(t *testing.T) {
	s := newTables(t)
	s.insert(eventsOfTwoVisits()...)
	s.build("UTC")
	for _, filter := range []string{`[["is","goal",["nothing"]]]`, `[["and",[["is","goal",["nothing"]],["is","goal",["Home"]]]]]`} {
		got, err := s.store.Count(context.Background(), s.request(Count, "UTC", "from", "2025-05-05", "to", "2025-05-05", "metrics", "views,visitors,visits", "filters", filter))
		if err != nil {
			t.Fatal(err)
		}
		if *got.Views != 0 || *got.Visitors != 0 || *got.Visits != 0 {
			t.Errorf("%s: %d views, %d visitors, %d visits; want none", filter, *got.Views, *got.Visitors, *got.Visits)
		}
	}
}

func TestSeriesBesideTheOneBefore(t *testing.T) {
	s := newTables(t)
	s.insert(viewsAt("2024-02-28T10:00:00Z", "2024-02-29T10:00:00Z", "2025-02-26T10:00:00Z", "2025-02-28T10:00:00Z", "2025-02-28T11:00:00Z", "2025-03-01T10:00:00Z")...)
	tests := []struct{ compare, want string }{
		{"previous", "2025-02-28 2 before 2025-02-26 1, 2025-03-01 1 before 2025-02-27 0"},
		{"year", "2025-02-28 2 before 2024-02-28 1, 2025-03-01 1 before 2024-02-29 1"},
	}
	for _, test := range tests {
		got := s.series("UTC", "from", "2025-02-28", "to", "2025-03-01", "compare", test.compare, "metrics", "views", "interval", "day")
		var bars []string
		for _, bar := range got.Results {
			bars = append(bars, fmt.Sprintf("%s %d before %s %d", bar.Date, *bar.Views, bar.Previous.Date, *bar.Previous.Views))
		}
		if text := strings.Join(bars, ", "); text != test.want || got.Meta.Compared == nil {
			t.Errorf("%s: got %s, want %s", test.compare, text, test.want)
		}
	}
}

// An explanation names every statement with its parameters and what it read.
func TestExplanation(t *testing.T) {
	s := newTables(t)
	s.insert(eventsOfTwoVisits()...)
	got, err := s.store.Top(context.Background(), s.request(Top, "UTC", "dimension", "path", "metrics", "views,visitors", "from", "2025-05-04", "to", "2025-05-05", "explain", "1"))
	if err != nil {
		t.Fatal(err)
	}
	e := got.Meta.Explanation
	if e == nil || e.Plan["views and events"] != "views" || e.Plan["visitors"] != "dimensions" || len(e.Statements) != 3 {
		t.Fatalf("explanation %+v, want views, dimensions and three statements", e)
	}
	for i, st := range e.Statements {
		if !strings.Contains(st.SQL, "{site:String}") || st.Params["site"] != s.site || st.ReadRows == 0 || st.ReadBytes == 0 {
			t.Errorf("statement %d: %+v", i, st)
		}
	}
}

// What raw events are needed for is refused once they are gone, and the dates are named that can be answered.
func TestWhatIsNotKept(t *testing.T) {
	s := newTables(t)
	s.insert(eventsOfTwoVisits()...)
	long, short := []string{"from", "2025-05-04", "to", "2025-05-05"}, []string{"from", "2025-05-05", "to", "2025-05-05"}
	tests := []struct {
		params  []string
		refused bool
	}{
		{long, false},
		{append(short, "metrics", "visits"), false},
		{append(long, "metrics", "visits"), true},
		{append(long, "filters", `[["is","props.plan",["free"]]]`), true},
		{append(long, "metrics", "time_on_page"), true},
		{[]string{"from", "2025-05-04T10:00:00Z", "to", "2025-05-05T10:15:00Z"}, false},
		{[]string{"from", "2025-05-04T10:01:00Z", "to", "2025-05-05T10:15:00Z"}, true},
	}
	for _, test := range tests {
		r := s.request(Count, "UTC", test.params...)
		r.KeptSince = at("2025-05-04T20:00:00Z")
		_, err := s.store.Count(context.Background(), r)
		var param *ParamError
		if test.refused != (errors.As(err, &param) && param.Field == "from" && strings.Contains(param.Message, "2025-05-05")) || !test.refused && err != nil {
			t.Errorf("%q: got %v, refused should be %v", test.params, err, test.refused)
		}
	}
}

func TestCSV(t *testing.T) {
	s := newTables(t)
	events := eventsOfTwoVisits()
	events[4].Title = `=1+1, "x"`
	s.insert(events...)
	ctx := context.Background()
	day := []string{"from", "2025-05-05", "to", "2025-05-05"}
	var b bytes.Buffer
	top, err := s.store.Top(ctx, s.request(Top, "UTC", append(day, "dimension", "title", "metrics", "views")...))
	if err != nil {
		t.Fatal(err)
	}
	count, err := s.store.Count(ctx, s.request(Count, "UTC", append(day, "metrics", "views,time_on_page")...))
	if err != nil {
		t.Fatal(err)
	}
	totals, err := s.store.Totals(ctx, s.request(Totals, "UTC", append(day, "metrics", "views,bounce_rate", "compare", "previous")...))
	if err != nil {
		t.Fatal(err)
	}
	series := s.series("UTC", append(day, "interval", "day", "compare", "previous", "metrics", "views")...)
	for _, err := range []error{top.WriteCSV(&b), count.WriteCSV(&b), totals.WriteCSV(&b), series.WriteCSV(&b)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := "title,views\n(not set),2\n\"'=1+1, \"\"x\"\"\",1\n" +
		"site,path,name,views,time_on_page\n" + s.site + ",,,3,\n" +
		"metric,value,previous\nviews,3,1\nbounce_rate,50,100\n" +
		"date,start,end,views,previous_date,previous_views\n2025-05-05,2025-05-05T00:00:00Z,2025-05-06T00:00:00Z,3,2025-05-04,1\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
