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
			golden(t, test.name, "-- "+test.params+"\n\n"+statements(&r))
		})
	}
	golden(t, "extent", text(extentSQL("example.com")))
	golden(t, "total", text(totalSQL("example.com", "/a")))
}

func statements(r *Request) string {
	p := planOf(r)
	var parts []string
	if p.counts != "" {
		parts = append(parts, "-- counts from "+string(p.counts)+"\n"+text(countsSQL(r, &p)))
	}
	if p.visitors != "" {
		parts = append(parts, "-- visitors from "+string(p.visitors)+"\n"+text(visitorsSQL(r, &p, []string{"first value", "second value"})))
	}
	return strings.Join(parts, "\n")
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
