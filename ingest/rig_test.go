package ingest

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
	"github.com/pagetally/pagetally/schema/embedded/embeddedtest"
)

func TestMain(m *testing.M) { embeddedtest.Main(m) }

const browser = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36"

// Secrets of the rig's keys.
var (
	ingestSecret = secretPrefix + strings.Repeat("a", 32)
	readSecret1  = secretPrefix + strings.Repeat("b", 32)
	oneSite      = secretPrefix + strings.Repeat("c", 32) // for example.org only
)

// rig is a server on a real journal, reached over a real connection.
type rig struct {
	t       testing.TB
	url     string
	server  *Server
	journal *journal.Journal
	metrics *prometheus.Registry
	client  *http.Client
}

// newRig starts a server with sites example.com, example.org, bücher.example, hash.example (hash routing), page.example (keeps
// "page") and a retention of 30 days at short.example. change may alter its configuration.
func newRig(t testing.TB, change ...func(*Config)) *rig {
	t.Helper()
	return newRigWith(t, FiberConfig().ReadTimeout, change...)
}

// newRigWith is newRig with another read timeout.
func newRigWith(t testing.TB, readTimeout time.Duration, change ...func(*Config)) *rig {
	t.Helper()
	dir := t.TempDir()
	j, err := journal.Open(journal.Options{Dir: filepath.Join(dir, "journal"), SealAge: time.Hour, Format: schema.EventFormat})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	sites, err := NewSites([]Site{
		{Domain: "example.com", Limits: fast}, {Domain: "example.org"}, {Domain: "bücher.example"},
		{Domain: "hash.example", Paths: schema.PathRules{HashRouting: true}},
		{Domain: "page.example", Paths: schema.PathRules{KeepQuery: []string{"page"}}},
		{Domain: "short.example", Retention: 30},
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, journal: j, metrics: prometheus.NewRegistry(), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	cfg := Config{Journal: j, Sites: sites, Node: "n1", Metrics: r.metrics, Keys: testKeys(t, dir), Salts: testSalts(t, dir), GoatcounterCalls: -1}
	for _, f := range change {
		f(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	fiberConfig := FiberConfig()
	fiberConfig.ReadTimeout = readTimeout
	r.server = s
	app := fiber.New(fiberConfig)
	s.Register(app)
	Harden(app)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- app.Listener(Linger(listener)) }()
	t.Cleanup(func() {
		r.client.CloseIdleConnections()
		if err := app.ShutdownWithTimeout(5 * time.Second); err != nil {
			t.Errorf("shut down: %v", err)
		}
		<-done
	})
	r.url = "http://" + listener.Addr().String()
	return r
}

func testKeys(t testing.TB, dir string) *Keys {
	t.Helper()
	keys := map[[32]byte]Key{
		sha256.Sum256([]byte(ingestSecret)): {ID: "k1", Scopes: []string{ScopeIngest}},
		sha256.Sum256([]byte(readSecret1)):  {ID: "k2", Scopes: []string{ScopeRead}},
		sha256.Sum256([]byte(oneSite)):      {ID: "k3", Scopes: []string{ScopeIngest}, Sites: []string{"example.org"}},
		sha256.Sum256([]byte(oneOfExample)): {ID: "k4", Scopes: []string{ScopeIngest}, Sites: []string{"example.com"}},
	}
	path := filepath.Join(dir, "keys")
	if err := writeSecret(path, encodeKeys(keys)); err != nil {
		t.Fatal(err)
	}
	k, err := OpenKeys(KeysConfig{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func testSalts(t testing.TB, dir string) *Salts {
	t.Helper()
	s, err := OpenSalts(SaltsConfig{Path: filepath.Join(dir, "salts"), Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// reply is an answer with its body read.
type reply struct {
	status int
	header http.Header
	body   string
	closes bool // the server ends the connection
}

// do sends a request; headers are "Name: value".
func (r *rig) do(method, path string, body []byte, headers ...string) reply {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("User-Agent", browser)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header[http.CanonicalHeaderKey(name)] = []string{value}
	}
	res, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, string(b), res.Close}
}

// beacon posts to Plausible's endpoint and checks the status.
func (r *rig) beacon(status int, body string, headers ...string) reply {
	r.t.Helper()
	got := r.do(http.MethodPost, "/api/event", []byte(body), headers...)
	if got.status != status {
		r.t.Errorf("beacon %.200s: status %d, want %d: %.200s", body, got.status, status, got.body)
	}
	return got
}

// post posts to the native endpoint, checks the status and decodes the answer.
func (r *rig) post(status int, body string, headers ...string) nativeReply {
	r.t.Helper()
	got := r.do(http.MethodPost, "/v1/events", []byte(body), headers...)
	if got.status != status {
		r.t.Errorf("post %.200s: status %d, want %d: %.200s", body, got.status, status, got.body)
	}
	var answer nativeReply
	if err := json.Unmarshal([]byte(got.body), &answer); err != nil {
		r.t.Errorf("post %.200s: %v in %.200s", body, err, got.body)
	}
	return answer
}

func bearer(secret string) string { return "Authorization: Bearer " + secret }

// events are all events that were journaled.
func (r *rig) events() []schema.Event {
	r.t.Helper()
	if err := r.journal.Seal(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	infos, err := r.journal.List(journal.StateSealed)
	if err != nil {
		r.t.Fatal(err)
	}
	var events []schema.Event
	for _, info := range infos {
		segment, err := r.journal.Read(journal.StateSealed, info.ID)
		if err != nil {
			r.t.Fatal(err)
		}
		segment.Frames(func(f journal.Frame) bool {
			events = append(events, decodeFrame(r.t, f)...)
			return true
		})
	}
	return events
}

func decodeFrame(t testing.TB, f journal.Frame) []schema.Event {
	t.Helper()
	var events []schema.Event
	for rest := f.Payload; rest != ""; {
		var e schema.Event
		var err error
		if rest, err = schema.DecodeEvent(rest, &e); err != nil {
			t.Fatal(err)
		}
		if err := e.Check(); err != nil {
			t.Errorf("journaled event is unfit: %v: %+v", err, e)
		}
		events = append(events, e)
	}
	if len(events) != f.Rows {
		t.Errorf("frame of %d events says %d rows", len(events), f.Rows)
	}
	return events
}

// only is the one event that was journaled.
func (r *rig) only() schema.Event {
	r.t.Helper()
	events := r.events()
	if len(events) != 1 {
		r.t.Fatalf("%d events were journaled, want 1", len(events))
	}
	return events[0]
}

// refused sums the refused events of a reason.
func (r *rig) refused(reason Reason) int {
	r.t.Helper()
	families, err := r.metrics.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "pagetally_ingest_refused_total" && l.GetName() == "reason" && l.GetValue() == string(reason) {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return int(sum)
}

// fast are the limits of the rig's busiest site: the tests send from one address.
var fast = Limits{PerAddress: 1e6, PerSite: 1e6}

func decodeReply(t testing.TB, body string) nativeReply {
	t.Helper()
	var answer nativeReply
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatalf("%v in %.200s", err, body)
	}
	return answer
}
