package query

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gofiber/fiber/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// ask sends a question to Plausible's API and returns status and body, decoded.
func askPlausible(t *testing.T, app *fiber.App, method, path, body, key string) (int, any) {
	t.Helper()
	request := httptest.NewRequest(method, path, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := app.Test(request, 30_000)
	if err != nil {
		t.Fatal(err)
	}
	var decoded any
	if err := json.NewDecoder(response.Body).Decode(&decoded); err != nil {
		t.Fatalf("%s %s: %v", path, body, err)
	}
	return response.StatusCode, decoded
}

func checkJSON(t *testing.T, what, want string, got any) {
	t.Helper()
	var decoded any
	if err := json.Unmarshal([]byte(want), &decoded); err != nil {
		t.Fatalf("%s: %v in %s", what, err, want)
	}
	if diff := cmp.Diff(decoded, got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

func TestPlausibleQuery(t *testing.T) {
	s := newTables(t)
	s.now = at("2025-05-06T12:00:00Z")
	events := eventsOfTwoVisits()
	for i := range events {
		events[i].Country = []string{"DE", "DE", "DE", "DE", ""}[i]
	}
	s.insert(events...)
	app := newApp(t, s)
	const day = `"date_range":["2025-05-05","2025-05-05"]`
	tests := []struct{ name, body, results, meta string }{
		{"totals", `{"site_id":"SITE","metrics":["visitors","visits","pageviews","events","views_per_visit","bounce_rate","visit_duration"],` + day + `}`,
			`[{"dimensions":[],"metrics":[2,2,3,4,1.5,50,60]}]`, `{}`},
		{"nothing", `{"site_id":"SITE","metrics":["visitors","bounce_rate"],"date_range":["2025-04-01","2025-04-02"]}`,
			`[{"dimensions":[],"metrics":[0,null]}]`, `{}`},
		{"pages", `{"site_id":"SITE","metrics":["pageviews","visitors","percentage"],` + day + `,"dimensions":["event:page"],"include":{"total_rows":true,"imports":true},"pagination":{"limit":2}}`,
			`[{"dimensions":["/"],"metrics":[1,1,50]},{"dimensions":["/a"],"metrics":[1,1,50]}]`,
			`{"total_rows":3,"imports_included":false,"imports_skip_reason":"no_imported_data"}`},
		{"time", `{"site_id":"SITE","metrics":["pageviews"],"date_range":["2025-05-03","2025-05-05"],"dimensions":["time:day"],"include":{"time_labels":true}}`,
			`[{"dimensions":["2025-05-04"],"metrics":[1]},{"dimensions":["2025-05-05"],"metrics":[3]}]`,
			`{"time_labels":["2025-05-03","2025-05-04","2025-05-05"]}`},
		{"hours", `{"site_id":"SITE","metrics":["events"],` + day + `,"dimensions":["time"],"order_by":[["events","desc"]]}`,
			`[{"dimensions":["2025-05-05 10:00:00"],"metrics":[3]},{"dimensions":["2025-05-05 12:00:00"],"metrics":[1]}]`, `{}`},
		{"two dimensions and time", `{"site_id":"SITE","metrics":["visitors"],` + day + `,"dimensions":["visit:country_name","time:day","visit:source"]}`,
			`[{"dimensions":["(not set)","2025-05-05","Direct / None"],"metrics":[1]},{"dimensions":["Germany","2025-05-05","google.com"],"metrics":[1]}]`, `{}`},
		{"goals", `{"site_id":"SITE","metrics":["visitors","conversion_rate","group_conversion_rate"],` + day + `,"dimensions":["event:goal"],"order_by":[["event:goal","asc"]]}`,
			`[{"dimensions":["Home"],"metrics":[1,50,50]},{"dimensions":["Signup"],"metrics":[1,50,50]},{"dimensions":["Visit rare"],"metrics":[1,50,50]}]`, `{}`},
		{"conversion by source", `{"site_id":"SITE","metrics":["visitors","conversion_rate","group_conversion_rate"],` + day + `,"dimensions":["visit:source"],"filters":[["is","event:goal",["Signup"]]]}`,
			`[{"dimensions":["google.com"],"metrics":[1,50,100]}]`, `{}`},
		{"filters", `{"site_id":"SITE","metrics":["pageviews"],` + day + `,"filters":[["or",[["contains","event:page",["RARE"],{"case_sensitive":false}],["is","visit:source",["Direct / None"]]]],["has_not_done",["is","event:page",["/none"]]]]}`,
			`[{"dimensions":[],"metrics":[2]}]`, `{}`},
		{"revenue", `{"site_id":"SITE","metrics":["total_revenue"],` + day + `}`,
			`[{"dimensions":[],"metrics":[null]}]`, `{"metric_warnings":{"total_revenue":{"code":"no_revenue_goals_matching","warning":"Revenue is not kept."}}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			body := strings.ReplaceAll(test.body, "SITE", s.site)
			conforms(t, body, true)
			status, got := askPlausible(t, app, http.MethodPost, "/api/v2/query", body, "this")
			if status != 200 {
				t.Fatalf("%d %v", status, got)
			}
			reply := got.(map[string]any)
			checkJSON(t, "results", test.results, reply["results"])
			checkJSON(t, "meta", test.meta, reply["meta"])
		})
	}
	// The question comes back with what it left out.
	_, got := askPlausible(t, app, http.MethodPost, "/api/v2/query", `{"site_id":"`+s.site+`","metrics":["visitors"],"date_range":"7d","dimensions":["time:day"]}`, "this")
	checkJSON(t, "echo", `{"site_id":"`+s.site+`","metrics":["visitors"],"date_range":["2025-04-29T00:00:00Z","2025-05-05T23:59:59Z"],"filters":[],"dimensions":["time:day"],
		"order_by":[["time:day","asc"],["visitors","desc"]],"include":{"imports":false,"time_labels":false,"total_rows":false},"pagination":{"limit":10000,"offset":0}}`,
		got.(map[string]any)["query"])
}

// conforms holds a question to the schema that the server gives out.
func conforms(t *testing.T, body string, want bool) {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(plausibleSchema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	compiler.AssertFormat()
	if err := compiler.AddResource("query.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("query.json")
	if err != nil {
		t.Fatal(err)
	}
	question, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(question); (err == nil) != want {
		t.Errorf("the schema says %v of %s", err, body)
	}
}

func TestPlausibleRefuses(t *testing.T) {
	s := newTables(t)
	app := newApp(t, s)
	const rest = `,"date_range":"7d"`
	tests := []struct {
		name, body string
		bySchema   bool // the schema refuses it as well
	}{
		{"no metrics", `{"site_id":"SITE","metrics":[]` + rest + `}`, true},
		{"metric", `{"site_id":"SITE","metrics":["clicks"]` + rest + `}`, true},
		{"metric twice", `{"site_id":"SITE","metrics":["visits","visits"]` + rest + `}`, true},
		{"unknown key", `{"site_id":"SITE","metrics":["visits"],"compare":"x"` + rest + `}`, true},
		{"no range", `{"site_id":"SITE","metrics":["visits"]}`, true},
		{"range", `{"site_id":"SITE","metrics":["visits"],"date_range":"8d"}`, true},
		{"range of three", `{"site_id":"SITE","metrics":["visits"],"date_range":["2025-01-01","2025-01-02","2025-01-03"]}`, true},
		{"backwards", `{"site_id":"SITE","metrics":["visits"],"date_range":["2025-01-02","2025-01-01"]}`, false},
		{"dimension", `{"site_id":"SITE","metrics":["visits"],"dimensions":["visit:colour"]` + rest + `}`, true},
		{"two times", `{"site_id":"SITE","metrics":["visits"],"dimensions":["time:day","time:hour"]` + rest + `}`, false},
		{"time in a filter", `{"site_id":"SITE","metrics":["visits"],"filters":[["is","time:day",["x"]]]` + rest + `}`, true},
		{"operator", `{"site_id":"SITE","metrics":["visits"],"filters":[["like","event:page",["x"]]]` + rest + `}`, true},
		{"segment", `{"site_id":"SITE","metrics":["visits"],"filters":[["is","segment",[1]]]` + rest + `}`, true},
		{"goal is not", `{"site_id":"SITE","metrics":["visits"],"filters":[["is_not","event:goal",["x"]]]` + rest + `}`, false},
		{"order", `{"site_id":"SITE","metrics":["visits"],"order_by":[["visitors","desc"]]` + rest + `}`, false},
		{"limit", `{"site_id":"SITE","metrics":["visits"],"pagination":{"limit":10001}` + rest + `}`, true},
		{"labels without time", `{"site_id":"SITE","metrics":["visits"],"include":{"time_labels":true}` + rest + `}`, false},
		{"conversion of nothing", `{"site_id":"SITE","metrics":["conversion_rate"]` + rest + `}`, false},
		{"percentage of one row", `{"site_id":"SITE","metrics":["percentage"]` + rest + `}`, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			body := strings.ReplaceAll(test.body, "SITE", s.site)
			conforms(t, body, !test.bySchema)
			status, got := askPlausible(t, app, http.MethodPost, "/api/v2/query", body, "this")
			if reply, _ := got.(map[string]any); status != 400 || len(reply) != 1 || reply["error"] == "" {
				t.Errorf("%d %v, want 400 and an error", status, got)
			}
		})
	}
	for _, test := range []struct {
		site, key string
		status    int
	}{{"", "this", 400}, {s.site, "", 401}, {s.site, "that", 401}, {"other.example", "all", 401}, {s.site, "this", 200}, {"public.example", "", 200}} {
		body := `{"site_id":"` + test.site + `","metrics":["visitors"],"date_range":"7d"}`
		if status, got := askPlausible(t, app, http.MethodPost, "/api/v2/query", body, test.key); status != test.status {
			t.Errorf("site %q with key %q: %d %v, want %d", test.site, test.key, status, got, test.status)
		}
	}
	if status, got := askPlausible(t, app, http.MethodPost, "/api/v2/query", "[]", "this"); status != 400 {
		t.Errorf("no object: %d %v", status, got)
	}
}

func TestPlausibleVersion1(t *testing.T) {
	s := newTables(t)
	s.now = at("2025-05-05T14:00:00Z")
	events := eventsOfTwoVisits()
	events[1].Browser, events[1].Path, events[1].PathKey = "Firefox", "/a|b", "/a|b"
	s.insert(events...)
	app := newApp(t, s)
	tests := []struct{ name, question, want string }{
		{"aggregate", "aggregate?period=day&metrics=visitors,pageviews, bounce_rate", `{"results":{"visitors":{"value":2},"pageviews":{"value":3},"bounce_rate":{"value":50}}}`},
		{"aggregate compared", "aggregate?period=day&compare=previous_period&metrics=visitors,bounce_rate,visit_duration",
			`{"results":{"visitors":{"value":2,"change":100},"bounce_rate":{"value":50,"change":-50},"visit_duration":{"value":60,"change":100}}}`},
		{"default", "aggregate", `{"results":{"visitors":{"value":3}}}`},
		{"days", "timeseries?period=custom&date=2025-05-03, 2025-05-05&metrics=visitors,bounce_rate",
			`{"results":[{"date":"2025-05-03","visitors":0,"bounce_rate":null},{"date":"2025-05-04","visitors":1,"bounce_rate":100},{"date":"2025-05-05","visitors":2,"bounce_rate":50}]}`},
		{"months", "timeseries?period=6mo&metrics=pageviews",
			`{"results":[{"date":"2024-12-01","pageviews":0},{"date":"2025-01-01","pageviews":0},{"date":"2025-02-01","pageviews":0},{"date":"2025-03-01","pageviews":0},{"date":"2025-04-01","pageviews":0},{"date":"2025-05-01","pageviews":4}]}`},
		{"breakdown", "breakdown?period=day&property=event:page&metrics=pageviews,visitors&limit=2",
			`{"results":[{"page":"/a","pageviews":1,"visitors":1},{"page":"/a|b","pageviews":1,"visitors":1}]}`},
		{"second page", "breakdown?period=day&property=event:page&metrics=pageviews&limit=2&page=2", `{"results":[{"page":"/rare1","pageviews":1}]}`},
		{"sources", "breakdown?period=day&property=visit:source", `{"results":[{"source":"Direct / None","visitors":1},{"source":"google.com","visitors":1}]}`},
		{"goals", "breakdown?period=day&property=event:goal&metrics=visitors,conversion_rate&filters=event:goal==Signup", `{"results":[{"goal":"Signup","visitors":1,"conversion_rate":50}]}`},
		{"wildcard", "aggregate?period=day&metrics=pageviews&filters=event:page==/rare*", `{"results":{"pageviews":{"value":1}}}`},
		{"not", "aggregate?period=day&metrics=pageviews&filters=event:page!=/rare*;visit:source!=google.com", `{"results":{"pageviews":{"value":1}}}`},
		{"any of two, one with a bar", `aggregate?period=day&metrics=pageviews&filters=event:page==/a\|b|/a`, `{"results":{"pageviews":{"value":2}}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path, params, _ := strings.Cut(test.question, "?")
			status, got := askPlausible(t, app, http.MethodGet, "/api/v1/stats/"+path+"?site_id="+s.site+"&"+escaped(params), "", "this")
			if status != 200 {
				t.Fatalf("%d %v", status, got)
			}
			checkJSON(t, test.question, test.want, got)
		})
	}
	_, got := askPlausible(t, app, http.MethodGet, "/api/v1/stats/timeseries?period=day&site_id="+s.site, "", "this")
	hours := got.(map[string]any)["results"].([]any)
	if first := hours[0].(map[string]any); len(hours) != 24 || first["date"] != "2025-05-05 00:00:00" {
		t.Errorf("%d hours from %v", len(hours), hours[0])
	}
	if _, got := askPlausible(t, app, http.MethodGet, "/api/v1/stats/realtime/visitors?site_id="+s.site, "", "this"); got != 0.0 {
		t.Errorf("realtime says %v, want 0", got)
	}
	for _, bad := range []string{
		"aggregate?period=week", "aggregate?period=custom&date=2025-05-05", "aggregate?metrics=clicks", "aggregate?metrics=visitors,visitors", "aggregate?compare=year",
		"aggregate?filters=event:page", "aggregate?filters=event:page!=a|b", "aggregate?filters=event:page==a*|b", "aggregate?filters=event:goal!=Signup",
		"aggregate?interval=day", "timeseries?interval=hour", "breakdown?metrics=visitors", "breakdown?property=event:hostname", "breakdown?property=visit:source&limit=0",
	} {
		path, params, _ := strings.Cut(bad, "?")
		status, got := askPlausible(t, app, http.MethodGet, "/api/v1/stats/"+path+"?site_id="+s.site+"&"+escaped(params), "", "this")
		if reply, _ := got.(map[string]any); status != 400 || len(reply) != 1 || reply["error"] == "" {
			t.Errorf("%s: %d %v, want 400 and an error", bad, status, got)
		}
	}
}

// escaped are parameters whose values are written plainly.
func escaped(params string) string {
	var list []string
	for part := range strings.SplitSeq(params, "&") {
		name, value, _ := strings.Cut(part, "=")
		if name != "" {
			list = append(list, name+"="+url.QueryEscape(value))
		}
	}
	return strings.Join(list, "&")
}

func TestPlausibleSchemaIsServed(t *testing.T) {
	app := newApp(t, newTables(t))
	response, body := fetch(t, app, http.MethodGet, "/api/docs/query/schema.json")
	if response.StatusCode != 200 || body != string(plausibleSchema) || response.Header.Get("Content-Type") != "application/schema+json" {
		t.Errorf("%d %s %.100s", response.StatusCode, response.Header.Get("Content-Type"), body)
	}
}
