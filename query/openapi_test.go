package query

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compiler knows the description as a resource, whose schemas are compiled by name.
func apiSchemas(t *testing.T) func(name string) *jsonschema.Schema {
	t.Helper()
	d, err := docs()
	if err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(d.openAPI))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("openapi.json", document); err != nil {
		t.Fatal(err)
	}
	return func(name string) *jsonschema.Schema {
		t.Helper()
		compiled, err := compiler.Compile("openapi.json#/components/schemas/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return compiled
	}
}

func TestAnswersAreAsDescribed(t *testing.T) {
	s := newTables(t)
	s.insert(eventsOfTwoVisits()...)
	app := newApp(t, s)
	compiled := apiSchemas(t)
	everything := "&from=2025-05-05&to=2025-05-05&explain=1&metrics=" + listMetrics()
	for _, test := range []struct {
		schema, url string
		status      int
	}{
		{"Count", "/v1/count?site=SITE", 200},
		{"Count", "/v1/count?site=SITE&name=signup" + everything[:strings.Index(everything, "&explain")], 200},
		{"Count", "/v1/count?site=SITE&mode=recent&period=day", 200},
		{"Totals", "/v1/totals?site=SITE&filters=[[\"is\",\"goal\",[\"Home\"]]]&compare=previous" + withoutPings(everything), 200},
		{"Timeseries", "/v1/timeseries?site=SITE&interval=hour&compare=year&filters=[[\"is\",\"goal\",[\"Home\"]]]" + withoutPings(everything), 200},
		{"Top", "/v1/top?site=SITE&dimension=path,source&metrics=views,visits,time_on_page", 200},
		{"Realtime", "/v1/realtime?site=SITE", 200},
		{"Ledger", "/v1/ledger", 200},
		{"PlausibleV1", "/api/v1/stats/aggregate?site_id=SITE", 200},
		{"PlausibleV1", "/api/v1/stats/timeseries?site_id=SITE", 200},
		{"PlausibleV1", "/api/v1/stats/breakdown?site_id=SITE&property=event:page", 200},
		{"PlausibleError", "/api/v1/stats/aggregate?site_id=SITE&metrics=x", 400},
		{"PlausibleError", "/api/v1/stats/aggregate?site_id=none.example", 401},
		{"Error", "/v1/count?site=SITE&tz=nowhere", 400},
		{"Error", "/v1/count?site=none.example", 400},
	} {
		url := strings.NewReplacer("SITE", s.site, `"`, "%22", "[", "%5B", "]", "%5D").Replace(test.url)
		response, body := fetch(t, app, http.MethodGet, url, "Authorization", "Bearer all")
		answer, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
		if err != nil {
			t.Fatalf("%s: %v in %s", test.url, err, body)
		}
		if err := compiled(test.schema).Validate(answer); err != nil || response.StatusCode != test.status {
			t.Errorf("%s: %d %v\n%s", test.url, response.StatusCode, err, body)
		}
	}
	body := `{"site_id":"` + s.site + `","metrics":["visitors","bounce_rate"],"date_range":"all","dimensions":["event:page"]}`
	if _, got := askPlausible(t, app, http.MethodPost, "/api/v2/query", body, "this"); compiled("PlausibleV2").Validate(got) != nil {
		t.Errorf("/api/v2/query: %v", compiled("PlausibleV2").Validate(got))
	}
	for url, key := range map[string]string{"/v1/count?site=" + s.site: "", "/v1/ledger": "this"} {
		if status, _, got := get(t, app, url, key); status != 401 && status != 403 || compiled("Error").Validate(map[string]any(got)) != nil {
			t.Errorf("%s: %d %v", url, status, got)
		}
	}
	if compiled("Count").Validate(map[string]any{"site": "x", "views": "3"}) == nil {
		t.Error("the schema takes anything: the test shows nothing")
	}
}

func listMetrics() string { return strings.Join(names(metrics), ",") }

// withoutPings leaves out metrics that are not known by goals.
func withoutPings(params string) string {
	return strings.NewReplacer(",time_on_page", "", ",scroll_depth", "").Replace(params)
}

// Every route for reading is described, and nothing that is no route.
func TestRoutesAreDescribed(t *testing.T) {
	app := newApp(t, newTables(t))
	var routes, described []string
	for _, route := range app.GetRoutes(true) {
		isRead := strings.HasPrefix(route.Path, "/v1/") || strings.HasPrefix(route.Path, "/api/")
		if !isRead || route.Path == "/v1/openapi.json" || route.Path == "/api/docs/query/schema.json" || route.Method == http.MethodHead {
			continue
		}
		routes = append(routes, strings.ToLower(route.Method)+" "+route.Path)
	}
	for path, methods := range openAPI()["paths"].(object) {
		for method := range methods.(object) {
			described = append(described, method+" "+path)
		}
	}
	slices.Sort(routes)
	slices.Sort(described)
	if routes = slices.Compact(routes); !slices.Equal(routes, described) {
		t.Errorf("routes\n%s\ndescribed\n%s", strings.Join(routes, "\n"), strings.Join(described, "\n"))
	}
}

func TestParametersAreDescribed(t *testing.T) {
	used := map[string]bool{"format": true}
	for q := range ownParams {
		for _, name := range Params(q) {
			used[name] = true
			if paramTexts[name].text == "" {
				t.Errorf("%s of %s has no text", name, q)
			}
		}
	}
	for kind, own := range plausibleV1Own {
		for _, name := range append(own, plausibleV1Params...) {
			if plausibleTexts[name] == "" {
				t.Errorf("%s of %s has no text", name, kind)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(paramTexts)) {
		if !used[name] {
			t.Errorf("%s is described and taken by no question", name)
		}
	}
}

func TestDocsAreServed(t *testing.T) {
	app := newApp(t, newTables(t))
	response, page := fetch(t, app, http.MethodGet, "/docs")
	if response.StatusCode != 200 || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/html") {
		t.Fatalf("%d %s", response.StatusCode, page)
	}
	for _, want := range []string{"<code>/v1/top</code>", "week_start", "conversion_rate", `<code>monday</code>`, "/v1/openapi.json"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not have %s", want)
		}
	}
	if strings.Contains(page, "<script") || strings.Contains(page, "http://") || strings.Contains(page, "https://") {
		t.Error("the page has scripts or asks others for something")
	}
	if response, body := fetch(t, app, http.MethodGet, "/v1/openapi.json"); response.StatusCode != 200 || !strings.Contains(body, `"openapi":"3.1.0"`) {
		t.Errorf("%d %.100s", response.StatusCode, body)
	}
}
