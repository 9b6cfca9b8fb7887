package query

import (
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write golden files")

// Each kind of question has one text, whatever its values are.
func TestGoldenSQL(t *testing.T) {
	const cut = "&from=2025-03-01T10:07:00Z&to=2025-03-02T10:07:00Z"
	tests := []struct {
		name   string
		q      Question
		params string
	}{
		{"count_site", Count, "from=2025-03-01&to=2025-03-31&metrics=views,events,visitors"},
		{"count_site_cut", Count, "metrics=views,visitors" + cut},
		{"count_site_inside_a_bucket", Count, "from=2025-03-01T10:01:00Z&to=2025-03-01T10:02:00Z"},
		{"count_page", Count, "from=2025-03-01&to=2025-03-31&path=/a"},
		{"count_page_cut", Count, "path=/a" + cut},
		{"count_event", Count, "from=2025-03-01&to=2025-03-31&name=signup"},
		{"count_page_event", Count, "from=2025-03-01&to=2025-03-31&name=signup&path=/a"},
		{"count_without_final", Count, "from=2025-03-01&to=2025-03-31&final=0&metrics=views"},
		{"timeseries_day", Timeseries, "from=2025-03-29&to=2025-03-31&interval=day&tz=Europe/Berlin"},
		{"timeseries_cut", Timeseries, "interval=hour&path=/a" + cut},
		{"timeseries_odd_zone", Timeseries, "from=1971-05-01&to=1971-05-02&interval=day&tz=Africa/Monrovia"},
		{"top_path", Top, "from=2025-03-01&to=2025-03-31&dimension=path&limit=10&page=3"},
		{"top_path_cut", Top, "dimension=path" + cut},
		{"top_path_of_event", Top, "from=2025-03-01&to=2025-03-31&dimension=path&name=signup"},
		{"top_browser_cut", Top, "dimension=browser&metrics=views,events,visitors" + cut},
		{"top_browser_of_page", Top, "from=2025-03-01&to=2025-03-31&dimension=browser&path=/a"},
		{"top_browser_by_visitors", Top, "from=2025-03-01&to=2025-03-31&dimension=browser&metrics=visitors"},
		{"top_name_cut", Top, "dimension=name" + cut},
		{"built_count", Count, "from=2025-01-15&to=2025-03-05&metrics=views,visitors"},
		{"built_visits", Count, "from=2025-03-01&to=2025-03-05&metrics=visits,bounce_rate"},
		{"built_visits_partly", Timeseries, "from=2025-03-08&to=2025-03-14&metrics=visits&interval=day"},
		{"built_top_path", Top, "from=2025-01-15&to=2025-03-05&dimension=path"},
		{"built_entry_page", Top, "from=2025-03-08&to=2025-03-12&dimension=entry_page&metrics=visits,views,visitors"},
		{"visits_of_a_page", Count, "from=2025-03-01&to=2025-03-02&metrics=visits&path=/a"},
		{"visits_of_a_source", Count, "from=2025-03-01&to=2025-03-02&metrics=visits&filters=" + url.QueryEscape(`[["is","source",["Direct / None"]]]`)},
		{"views_of_entry_pages_cut", Top, "dimension=entry_page&metrics=views" + cut},
		{"engagement", Top, "from=2025-03-01&to=2025-03-02&dimension=path&metrics=views,time_on_page,scroll_depth"},
		{"filters", Count, "from=2025-03-01&to=2025-03-02&filters=" + url.QueryEscape(
			`[["or",[["matches","path",["^/a"]],["contains","browser",["fire"],{"case_sensitive":false}]]],["not",["is","props.plan",["free","pro"]]]]`)},
		{"has_done", Count, "from=2025-03-01&to=2025-03-02&metrics=views,visits&filters=" + url.QueryEscape(`[["has_done",["is","name",["signup"]]]]`)},
		{"two_dimensions", Top, "from=2025-03-01&to=2025-03-02&dimension=source,props.plan&metrics=events,visitors&order=-source"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			values, err := url.ParseQuery("site=example.com&" + test.params)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Parse(test.q, values, oneSite("UTC"), at("2025-06-11T12:00:00Z"))
			if err != nil {
				t.Fatal(err)
			}
			known := periods{}
			if strings.HasPrefix(test.name, "built_") {
				known = builtPeriods()
			}
			golden(t, test.name, "-- "+test.params+"\n\n"+statements(&r, known))
		})
	}
	golden(t, "builds", text(periodsSQL("example.com", span{at("2025-03-01T00:00:00Z").UnixMilli(), at("2025-03-02T00:00:00Z").UnixMilli()})))
	golden(t, "extent", text(extentSQL("example.com")))
	golden(t, "total", text(totalSQL("example.com", "/a")))
}

// builtPeriods are those that the golden questions meet.
func builtPeriods() periods {
	first := at("2025-02-01T00:00:00Z").UnixMilli()
	p := periods{days: map[int64]build{}, months: map[int64]build{first: {span: span{first, first + 28*dayMS}, period: first / dayMS, id: 7}}}
	for n := range int64(10) {
		day := build{span: span{first + (28+n)*dayMS, first + (29+n)*dayMS}, period: first/dayMS + 28 + n, id: uint64(100 + n)}
		p.days[day.from] = day
		p.visits = append(p.visits, day)
	}
	return p
}

func statements(r *Request, known periods) string {
	p := planOf(r, known)
	var parts []string
	ranked := len(r.Dimensions) > 0
	var within [][]string
	for _, f := range r.families() {
		parts = append(parts, fmt.Sprintf("-- %s from %s\n%s", familyNames[f], p.tableFor(f), text(p.statement(f, ranked, within))))
		if ranked {
			ranked = false
			for _, value := range []string{"first", "second"} {
				group := make([]string, len(r.Dimensions))
				for i := range group {
					group[i] = fmt.Sprint(value, " value ", i+1)
				}
				within = append(within, group)
			}
		}
	}
	return strings.Join(parts, "\n")
}

var familyNames = map[family]string{counts: "counts", visitors: "visitors", visits: "visits", pings: "pings"}

func (p *plan) tableFor(f family) table {
	return map[family]table{counts: p.counts, visitors: p.visitors, visits: p.visits, pings: eventsTable}[f]
}

func text(st statement) string {
	var b strings.Builder
	b.WriteString(st.sql + "\n")
	for _, p := range st.params {
		fmt.Fprintf(&b, "-- %s = %v\n", p.name, p.value)
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".sql")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", file, diff)
	}
}
