package query

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseRanges(t *testing.T) {
	tests := []struct{ name, params, from, to string }{
		{"dates include both days", "from=2025-03-01&to=2025-03-31", "2025-03-01T00:00:00+01:00", "2025-04-01T00:00:00+02:00"},
		{"one day", "from=2025-03-30&to=2025-03-30", "2025-03-30T00:00:00+01:00", "2025-03-31T00:00:00+02:00"},
		{"until today", "from=2025-06-01", "2025-06-01T00:00:00+02:00", "2025-06-12T00:00:00+02:00"},
		{"instants are half-open", "from=2025-03-01T10:00:00Z&to=2025-03-01T12:30:00.5Z", "2025-03-01T11:00:00+01:00", "2025-03-01T13:30:00.5+01:00"},
		{"plus lost on the way", "from=2025-03-01T10:00:00+01:00&to=2025-03-01T12:00:00+01:00", "2025-03-01T10:00:00+01:00", "2025-03-01T12:00:00+01:00"},
		{"below a millisecond", "from=2025-03-01T10:00:00.0001Z&to=2025-03-01T12:00:00Z", "2025-03-01T11:00:00.001+01:00", "2025-03-01T13:00:00+01:00"},
		{"date and instant", "from=2025-03-01&to=2025-03-01T12:00:00Z", "2025-03-01T00:00:00+01:00", "2025-03-01T13:00:00+01:00"},
		{"in another zone", "from=2025-03-01&to=2025-03-01&tz=Asia/Kathmandu", "2025-03-01T00:00:00+05:45", "2025-03-02T00:00:00+05:45"},
		{"day", "period=day", "2025-06-11T00:00:00+02:00", "2025-06-12T00:00:00+02:00"},
		{"24h", "period=24h", "2025-06-10T14:00:00+02:00", "2025-06-11T14:00:00+02:00"},
		{"realtime", "period=realtime", "2025-06-11T13:30:00+02:00", "2025-06-11T14:00:00+02:00"},
		{"7d", "period=7d", "2025-06-04T00:00:00+02:00", "2025-06-11T00:00:00+02:00"},
		{"28d", "period=28d", "2025-05-14T00:00:00+02:00", "2025-06-11T00:00:00+02:00"},
		{"91d over a change of clocks", "period=91d", "2025-03-12T00:00:00+01:00", "2025-06-11T00:00:00+02:00"},
		{"month", "period=month", "2025-06-01T00:00:00+02:00", "2025-07-01T00:00:00+02:00"},
		{"6mo", "period=6mo", "2024-12-01T00:00:00+01:00", "2025-06-01T00:00:00+02:00"},
		{"12mo", "period=12mo", "2024-06-01T00:00:00+02:00", "2025-06-01T00:00:00+02:00"},
		{"year", "period=year", "2025-01-01T00:00:00+01:00", "2026-01-01T00:00:00+01:00"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			values, _ := url.ParseQuery("site=example.com&" + test.params)
			r, err := Parse(Count, values, oneSite("Europe/Berlin"), at("2025-06-11T12:00:00Z"))
			if err != nil {
				t.Fatal(err)
			}
			if from, to := formatTime(r.Range.From), formatTime(r.Range.To); from != test.from || to != test.to {
				t.Errorf("got %s to %s, want %s to %s", from, to, test.from, test.to)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := []struct {
		name   string
		q      Question
		params string
		field  string
	}{
		{"no site", Count, "site=", "site"},
		{"unknown site", Count, "site=other.example", "site"},
		{"misspelt", Count, "paht=/a", "paht"},
		{"another question's", Count, "limit=3", "limit"},
		{"twice", Count, "path=/a&path=/b", "path"},
		{"empty", Count, "path=", "path"},
		{"zone", Count, "tz=Mars/Base", "tz"},
		{"host's zone", Count, "tz=Local", "tz"},
		{"zone file outside", Count, "tz=../../etc/passwd", "tz"},
		{"period", Count, "period=week", "period"},
		{"period and from", Count, "period=day&from=2025-01-01", "period"},
		{"to alone", Count, "to=2025-01-01", "from"},
		{"no date", Count, "from=yesterday", "from"},
		{"no such date", Count, "from=2025-02-30", "from"},
		{"instant without offset", Count, "from=2025-02-01T10:00:00", "from"},
		{"backwards", Count, "from=2025-02-02&to=2025-02-01", "to"},
		{"in the future", Count, "from=2030-02-02", "from"},
		{"backwards instants", Count, "from=2025-02-02T10:00:00Z&to=2025-02-02T09:59:59Z", "to"},
		{"before the epoch", Count, "from=1969-12-31", "from"},
		{"year 54000", Count, "from=2025-01-01&to=54000-01-01", "to"},
		{"metric", Count, "metrics=views,clicks", "metrics"},
		{"metric twice", Count, "metrics=views,views", "metrics"},
		{"views of an event", Count, "name=signup&metrics=views", "metrics"},
		{"pings", Count, "name=engagement", "name"},
		{"mode", Count, "mode=fast", "mode"},
		{"final", Count, "final=maybe", "final"},
		{"interval", Timeseries, "interval=second", "interval"},
		{"week", Timeseries, "week_start=friday", "week_start"},
		{"too many bars", Timeseries, "interval=hour&from=2010-01-01&to=2025-01-01", "interval"},
		{"no dimension", Top, "", "dimension"},
		{"dimension", Top, "dimension=colour", "dimension"},
		{"dimension twice", Top, "dimension=path,path", "dimension"},
		{"property without a name", Top, "dimension=props.", "dimension"},
		{"order", Top, "dimension=path&order=browser", "order"},
		{"explain", Count, "explain=perhaps", "explain"},
		{"filters", Count, "filters=path", "filters"},
		{"filter's dimension", Count, `filters=[["is","colour",["red"]]]`, "filters"},
		{"filter's operator", Count, `filters=[["like","path",["/"]]]`, "filters"},
		{"filter without values", Count, `filters=[["is","path",[]]]`, "filters"},
		{"filter's expression", Count, `filters=[["matches","path",["("]]]`, "filters"},
		{"filter's option", Count, `filters=[["is","path",["/"],{"fold":true}]]`, "filters"},
		{"deep filter", Count, "filters=" + strings.Repeat(`["not",`, 20) + `["is","path",["/"]]` + strings.Repeat("]", 20), "filters"},
		{"has_done within itself", Count, `filters=[["has_done",["has_done",["is","path",["/"]]]]]`, "filters"},
		{"conversion of nothing", Count, "metrics=conversion_rate", "metrics"},
		{"time on page by visits", Top, "dimension=entry_page&metrics=time_on_page", "metrics"},
		{"time on page of an event", Count, "name=signup&metrics=time_on_page", "metrics"},
		{"limit", Top, "dimension=path&limit=0", "limit"},
		{"great limit", Top, "dimension=path&limit=1001", "limit"},
		{"page", Top, "dimension=path&page=x", "page"},
		{"comparison", Totals, "compare=decade", "compare"},
		{"comparison with everything", Totals, "compare=year", "compare"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			values, _ := url.ParseQuery(test.params)
			if !values.Has("site") {
				values.Set("site", "example.com")
			}
			_, err := Parse(test.q, values, oneSite("UTC"), at("2025-06-11T12:00:00Z"))
			var param *ParamError
			if !errors.As(err, &param) || param.Field != test.field || param.Message == "" {
				t.Errorf("got %v, want an error about %s", err, test.field)
			}
		})
	}
}

func TestParsePathAndMetrics(t *testing.T) {
	tests := []struct {
		q       Question
		params  string
		path    string
		metrics []Metric
	}{
		{Count, "path=/a/", "/a", []Metric{Views, Visitors}},
		{Count, "path=https://example.com/caf%25C3%25A9?utm_source=x%23top", "/café", []Metric{Views, Visitors}},
		{Count, "path=(other)", "(other)", []Metric{Views, Visitors}},
		{Count, "name=signup", "", []Metric{Events, Visitors}},
		{Count, "metrics=visitors, events", "", []Metric{Visitors, Events}},
		{Top, "dimension=name", "", []Metric{Events, Visitors}},
		{Top, "dimension=browser&mode=recent", "", []Metric{Views, Visitors}},
	}
	for _, test := range tests {
		values, err := url.ParseQuery(test.params)
		if err != nil {
			t.Fatal(err)
		}
		values.Set("site", "example.com")
		r, err := Parse(test.q, values, oneSite("UTC"), at("2025-06-11T12:00:00Z"))
		if err != nil {
			t.Errorf("%s: %v", test.params, err)
			continue
		}
		if diff := cmp.Diff(test.metrics, r.Metrics); diff != "" || r.Path != test.path {
			t.Errorf("%s: path %q, want %q; metrics (-want +got)\n%s", test.params, r.Path, test.path, diff)
		}
	}
}

// Whatever is asked is refused by naming a parameter, or can be planned and written within bounds.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"from=2025-03-01&to=2025-03-31&tz=Europe/Berlin", "period=24h&path=/o'brien", "from=2025-03-01T10:00:00%2b05:45&to=2025-03-01T12:00:00Z",
		"dimension=path&limit=10&page=2&metrics=visitors", "interval=week&period=all", "compare=year&from=2024-02-29&to=2024-02-29",
		`filters=[["or",[["is","goal",["Home"]],["has_done",["matches","props.plan",["^a"]]]]]]&metrics=visits,conversion_rate`,
		"dimension=goal,source&metrics=conversion_rate,visits&order=-visits", "dimension=entry_page,props.x&page=3",
		"name=x%00y&path=%ff", "tz=Pacific/Apia&from=2011-12-30&to=2011-12-30", "from=1970-01-01&tz=Asia/Kolkata&interval=month",
	} {
		f.Add(seed)
	}
	now := at("2025-06-11T12:00:00Z")
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		values.Set("site", "example.com")
		for q := range ownParams {
			r, err := Parse(q, values, oneSite("Asia/Kathmandu"), now)
			if err != nil {
				var param *ParamError
				if !errors.As(err, &param) || param.Field == "" && !values.Has("") {
					t.Fatalf("%q: error %v names no parameter", query, err)
				}
				continue
			}
			checkPlanned(t, r)
		}
	})
}

func checkPlanned(t *testing.T, r Request) {
	t.Helper()
	if r.Range.All {
		r.Range = allOf(r.Now, r.Now, r.Range.Loc)
	}
	if r.Range.To.Before(r.Range.From) || len(r.Metrics) == 0 {
		t.Fatalf("unusable request %+v", r)
	}
	if r.Question == Timeseries && r.Interval == "" {
		r.Interval = defaultInterval(r.Range.From, r.Range.To) // as the store does before it plans
	}
	p := planOf(&r, periods{})
	if len(p.bars) > MaxBars+2 || p.whole.from < 0 || len(p.cover.buckets) > 1 {
		t.Fatalf("plan out of bounds: %d bars, %v, %v", len(p.bars), p.whole, p.cover)
	}
	for _, f := range r.families() {
		for _, within := range [][][]string{nil, {slices.Repeat([]string{"x"}, len(r.Dimensions))}} {
			st := p.statement(f, within == nil && len(r.Dimensions) > 0, within)
			if r.Path != "" && len(r.Path) > 12 && strings.Contains(st.sql, r.Path) {
				t.Fatalf("the path %q is part of the text\n%s", r.Path, st.sql)
			}
		}
	}
}
