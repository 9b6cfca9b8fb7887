package ingest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pagetally/pagetally/schema"
)

// pageFile is a list of addresses of one site and how often each page, source, medium and campaign is to be counted.
type pageFile struct {
	Site     string         `json:"site"`
	URLs     []string       `json:"urls"`
	Pages    map[string]int `json:"want_pages"`
	Source   map[string]int `json:"want_source"`
	Medium   map[string]int `json:"want_medium"`
	Campaign map[string]int `json:"want_campaign"`

	HashOn  map[string]int `json:"hash_routing_on"`
	HashOff map[string]int `json:"hash_routing_off"`
	Kept    map[string]int `json:"allow_params_page"`
	Dropped map[string]int `json:"allow_none"`
}

// TestAddressesOfPages counts each file's addresses in each dialect, with the settings that it has expectations for.
func TestAddressesOfPages(t *testing.T) {
	files, err := filepath.Glob("testdata/pages/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".json"), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var f pageFile
			if err := json.Unmarshal(text, &f); err != nil {
				t.Fatal(err)
			}
			checked := false
			for _, c := range []struct {
				rules schema.PathRules
				want  map[string]int
			}{
				{want: f.Pages}, {want: f.HashOff}, {want: f.Dropped},
				{schema.PathRules{HashRouting: true}, f.HashOn}, {schema.PathRules{KeepQuery: []string{"page"}}, f.Kept},
			} {
				if c.want != nil {
					checked = true
					for i := range everyDialect {
						t.Run(everyDialect[i].name, func(t *testing.T) { f.check(t, &everyDialect[i], c.rules, c.want) })
					}
				}
			}
			if !checked {
				t.Error("the file expects nothing")
			}
		})
	}
}

func (f *pageFile) check(t *testing.T, d *dialect, rules schema.PathRules, pages map[string]int) {
	t.Helper()
	sites, err := NewSites([]Site{{Domain: f.Site, Paths: rules}}, false)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(c *Config) { c.Sites = sites })
	for _, url := range f.URLs {
		if got := r.tell(d, said{url: url}); got.status/100 != 2 || got.header.Get(HeaderReason) != "" {
			t.Errorf("%s is answered %d: %s", url, got.status, got.header.Get(HeaderReason))
		}
	}
	got := map[string]map[string]int{"pages": {}, "source": {}, "medium": {}, "campaign": {}}
	count := func(what, value string) {
		if value != "" {
			got[what][value]++
		}
	}
	for _, e := range r.events() {
		count("pages", e.PathKey)
		count("source", e.Source)
		count("medium", e.UTMMedium)
		count("campaign", e.UTMCampaign)
	}
	want := map[string]map[string]int{"pages": pages, "source": f.Source, "medium": f.Medium, "campaign": f.Campaign}
	for what, values := range want {
		if values == nil {
			want[what] = map[string]int{}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with %+v: %s", rules, diff)
	}
}
