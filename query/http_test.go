package query

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pagetally/pagetally/schema"
)

// listMeta is what is said of a list of so many rows.
func listMeta(meta string, rows int) string {
	return fmt.Sprintf("%s,\"total_rows\":%d}", strings.TrimSuffix(meta, "}"), rows)
}

type testKeys map[string]Key

func (k testKeys) ReadKey(secret string) (Key, bool) {
	key, ok := k[secret]
	return key, ok
}

// testSites knows the tables' site, a public one and no other.
type testSites struct{ site string }

func (s testSites) ReadSite(domain string) (Site, bool) {
	domain = strings.ToLower(domain)
	return Site{Domain: domain, Public: domain == "public.example", Badge: domain == s.site, Goals: modelGoals}, domain == s.site || domain == "public.example"
}

func newApp(t *testing.T, s *tables) *fiber.App {
	t.Helper()
	server, err := New(Config{
		Store: s.store, Sites: testSites{s.site}, Now: func() time.Time { return s.now }, Metrics: prometheus.NewRegistry(),
		Loopback: func(c *fiber.Ctx) bool { return c.Get("X-Test-Loopback") == "yes" },
		Keys: testKeys{
			"all": {Read: true}, "this": {Read: true, Sites: []string{s.site}},
			"that": {Read: true, Sites: []string{"public.example"}}, "writer": {Sites: []string{s.site}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	server.Register(app)
	return app
}

// fetch sends a request with headers, given as name and value in turn, and returns the response and its body.
func fetch(t *testing.T, app *fiber.App, method, url string, header ...string) (*http.Response, string) {
	t.Helper()
	request := httptest.NewRequest(method, url, nil)
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := app.Test(request, 30_000)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// get asks with a key, "" for none, and returns status, header and the body decoded.
func get(t *testing.T, app *fiber.App, url, key string) (int, http.Header, map[string]any) {
	t.Helper()
	var header []string
	if key != "" {
		header = []string{"Authorization", "Bearer " + key}
	}
	response, body := fetch(t, app, http.MethodGet, url, header...)
	var decoded map[string]any
	if err := json.Unmarshal([]byte(body), &decoded); err != nil {
		t.Fatalf("%s: %v in %s", url, err, body)
	}
	return response.StatusCode, response.Header, decoded
}

func TestReplies(t *testing.T) {
	s := newTables(t)
	events := viewsAt("2025-05-05T10:20:00Z", "2025-05-05T11:20:00Z", "2025-05-06T10:20:00Z")
	events[2].Path, events[2].PathKey, events[2].Browser = "/a", "/a", "Firefox"
	s.insert(events...)
	app := newApp(t, s)

	const span = "&from=2025-05-05&to=2025-05-06&tz=Europe/Berlin"
	meta := `"meta":{"exact":{"views":true,"visitors":true},"error_bound":{},"as_of":"2026-01-15T13:00:00+01:00","range":{"from":"2025-05-05T00:00:00+02:00",` +
		`"to":"2025-05-07T00:00:00+02:00","tz":"Europe/Berlin"},"source":"exact","definition":{"views":"` + definitions[Views] + `","visitors":"` + definitions[Visitors] + `"}}`
	tests := []struct{ name, url, want string }{
		{"count", "/v1/count?path=//%23x" + span, `{"site":"SITE","path":"/","views":2,"visitors":2,META}`},
		{"count of a site", "/v1/count?path=/nowhere/" + span, `{"site":"SITE","path":"/nowhere","views":0,"visitors":0,META}`},
		{"totals", "/v1/totals?mode=recent" + span, `{"results":{"views":{"value":3},"visitors":{"value":3}},META}`},
		{"timeseries", "/v1/timeseries?interval=day" + span, `{"results":[
			{"date":"2025-05-05","start":"2025-05-05T00:00:00+02:00","end":"2025-05-06T00:00:00+02:00","views":2,"visitors":2},
			{"date":"2025-05-06","start":"2025-05-06T00:00:00+02:00","end":"2025-05-07T00:00:00+02:00","views":1,"visitors":1}],"interval":"day",META}`},
		{"top", "/v1/top?dimension=browser" + span, `{"results":[{"browser":"(not set)","views":2,"visitors":2},{"browser":"Firefox","views":1,"visitors":1}],META of 2}`},
		{"top sources", "/v1/top?dimension=source" + span, `{"results":[{"source":"Direct / None","views":3,"visitors":3}],META of 1}`},
		{"empty", "/v1/top?dimension=path&path=/nowhere" + span, `{"results":[],META of 0}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			status, _, got := get(t, app, test.url+"&site="+strings.ToUpper(s.site), "this")
			var want map[string]any
			if err := json.Unmarshal([]byte(strings.NewReplacer("SITE", s.site, "META of 2", listMeta(meta, 2), "META of 1", listMeta(meta, 1), "META of 0", listMeta(meta, 0), "META", meta).Replace(test.want)), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" || status != http.StatusOK {
				t.Errorf("status %d (-want +got)\n%s", status, diff)
			}
		})
	}
}

func TestErrorReplies(t *testing.T) {
	s := newTables(t)
	app := newApp(t, s)
	for url, field := range map[string]string{
		"/v1/count?tz=Nowhere":                "tz",
		"/v1/count?paht=/a":                   "paht",
		"/v1/top?dimension=path&limit=x":      "limit",
		"/v1/timeseries?interval=decade":      "interval",
		"/v1/totals?from=2025-13-01":          "from",
		"/v1/timeseries?interval=hour&from=1": "from",
		"/v1/top":                             "dimension",
	} {
		sep := "&"
		if !strings.Contains(url, "?") {
			sep = "?"
		}
		status, _, got := get(t, app, url+sep+"site="+s.site, "this")
		failure, _ := got["error"].(map[string]any)
		if status != http.StatusBadRequest || failure["code"] != "bad_parameter" || failure["field"] != field || failure["message"] == "" {
			t.Errorf("%s: %d %v, want 400 about %s", url, status, got, field)
		}
	}

	broken, err := NewStore(StoreConfig{Conn: s.conn, Timeout: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	s.store = broken
	status, header, got := get(t, newApp(t, s), "/v1/count?site="+s.site, "this")
	failure, _ := got["error"].(map[string]any)
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || failure["code"] != "too_expensive" {
		t.Errorf("over a limit: %d %v, want 503 with Retry-After", status, got)
	}
	if text, _ := failure["message"].(string); strings.Contains(text, "deadline") || strings.Contains(text, "clickhouse") {
		t.Errorf("the engine's own words reached the caller: %s", text)
	}
}

func TestAccess(t *testing.T) {
	s := newTables(t)
	app := newApp(t, s)
	tests := []struct {
		site, key string
		want      int
	}{
		{s.site, "", 401}, {s.site, "wrong", 401}, {s.site, "writer", 403}, {s.site, "that", 403}, {s.site, "this", 200}, {s.site, "all", 200},
		{strings.ToUpper(s.site), "this", 200},
		{"public.example", "", 200}, {"public.example", "wrong", 200},
		{"unknown.example", "", 401}, {"unknown.example", "this", 403}, {"unknown.example", "all", 400},
	}
	for _, test := range tests {
		if status, _, got := get(t, app, "/v1/count?site="+test.site, test.key); status != test.want {
			t.Errorf("%s with key %q: %d %v, want %d", test.site, test.key, status, got, test.want)
		}
	}
	for key, want := range map[string]int{"": 401, "this": 403, "writer": 403, "all": 200} {
		if status, _, got := get(t, app, "/v1/ledger", key); status != want {
			t.Errorf("ledger with key %q: %d %v, want %d", key, status, got, want)
		}
	}
	request := httptest.NewRequest(http.MethodGet, "/v1/count?site="+s.site, nil)
	request.Header.Set("X-Test-Loopback", "yes")
	if response, err := app.Test(request, 30_000); err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("loopback: %v %v, want 200", response, err)
	}
}

func TestLedger(t *testing.T) {
	s := newTables(t)
	store, err := NewStore(StoreConfig{Conn: s.conn, InFlight: inFlight{pending: 4}})
	if err != nil {
		t.Fatal(err)
	}
	before, err := store.Ledger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	add := func(batch, state string, accepted, stored, duplicate, parked int) {
		if err := s.conn.Exec(t.Context(), `INSERT INTO ledger (batch, state, at, accepted, stored, duplicate, parked) VALUES (?, ?, now64(3), ?, ?, ?, ?)`,
			batch, state, accepted, stored, duplicate, parked); err != nil {
			t.Fatal(err)
		}
	}
	add("b1", "intent", 10, 0, 0, 0)
	add("b1", "stored", 10, 7, 2, 1)
	add("b1", "stored", 10, 7, 2, 1) // written again by a retry
	add("b2", "intent", 5, 0, 0, 0)
	got, err := store.Ledger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := before
	want.Accepted += 10
	want.Stored += 7
	want.Duplicate += 2
	want.Parked++
	want.Batches++
	want.Open++
	want.AsOf, got.AsOf = "", ""
	if diff := cmp.Diff(want, got); diff != "" || !got.Balanced || got.Pending != 4 {
		t.Errorf("(-want +got)\n%s", diff)
	}
	add("b3", "stored", 3, 2, 0, 0)
	if got, err := store.Ledger(t.Context()); err != nil || got.Balanced {
		t.Errorf("got %+v, %v, want books that do not balance", got, err)
	}
	if err := s.conn.Exec(t.Context(), "TRUNCATE TABLE ledger"); err != nil {
		t.Fatal(err)
	}
}

// Parameters are copied out of the server's buffers: concurrent questions do not mix.
func TestQuestionsDoNotMix(t *testing.T) {
	s := newTables(t)
	var events []schema.Event
	paths := []string{"/aaaaaaaa", "/bbbbbbbb", "/cccccccc", "/dddddddd"}
	for i, path := range paths {
		event := view("2025-05-05T10:20:00Z", path)
		event.N = int64(i + 1)
		events = append(events, event)
	}
	s.insert(events...)
	app := newApp(t, s)
	done := make(chan struct{})
	for i, path := range paths {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 5 {
				request := httptest.NewRequest(http.MethodGet, "/v1/count?path="+path+"&site="+s.site, nil)
				request.Header.Set("Authorization", "Bearer this")
				response, err := app.Test(request, 30_000)
				if err != nil {
					t.Error(err)
					return
				}
				var got CountResult
				if err := json.NewDecoder(response.Body).Decode(&got); err != nil || got.Path != path || got.Views == nil || *got.Views != int64(i+1) {
					t.Errorf("asked for %s: got %s with %v views, %v", path, got.Path, got.Views, err)
				}
			}
		}()
	}
	for range paths {
		<-done
	}
}
