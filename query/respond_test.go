package query

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/google/go-cmp/cmp"
)

// An answer about a range that is over is kept until an event of its days comes, however it comes.
func TestClosedRangesAreKept(t *testing.T) {
	s := newTables(t)
	s.insert(viewsAt("2025-05-05T10:00:00Z", "2025-05-06T10:00:00Z")...)
	app := newApp(t, s)
	question := "/v1/totals?from=2025-05-05&to=2025-05-05&metrics=views&compare=previous&site=" + s.site
	auth := []string{"Authorization", "Bearer this"}
	ask := func(header ...string) (int, string, string) {
		response, body := fetch(t, app, http.MethodGet, question, append(auth, header...)...)
		return response.StatusCode, response.Header.Get("ETag"), body
	}
	status, tag, body := ask()
	if status != 200 || tag == "" || !strings.Contains(body, `"value":1`) {
		t.Fatalf("%d %s %s", status, tag, body)
	}
	if status, again, body := ask("If-None-Match", tag); status != http.StatusNotModified || again != tag || body != "" {
		t.Errorf("asked again: %d %s %q, want 304", status, again, body)
	}
	s.exec("INSERT INTO views (site, name, bucket, path_key, n) VALUES ('" + s.site + "', 'pageview', '2025-05-05 11:00:00', '/', 7)") // behind the ledger's back
	if _, same, _ := ask(); same != tag {
		t.Error("the answer was read again although nothing had been announced")
	}
	s.insert(viewsAt("2025-05-05T12:00:00Z")...)
	if status, changed, body := ask("If-None-Match", tag); status != 200 || changed == tag || !strings.Contains(body, `"value":2`) {
		t.Errorf("after a late event: %d %s %s", status, changed, body)
	}
	_, tag, _ = ask()
	s.insert(viewsAt("2025-05-04T12:00:00Z")...)
	if _, changed, body := ask(); changed == tag || !strings.Contains(body, `"previous":1`) {
		t.Errorf("after a late event of the compared day: %s", body)
	}
	question = "/v1/totals?from=2025-05-05&metrics=views&site=" + s.site
	if _, tag, _ := ask(); tag != "" {
		t.Error("an answer about a range that goes on has a tag")
	}
}

func TestCacheIsBounded(t *testing.T) {
	c := newAnswerCache()
	for i := range 100 {
		c.put(fmt.Sprint(i), &encoded{body: make([]byte, cacheMost)})
		c.put(fmt.Sprint(i), &encoded{body: make([]byte, cacheMost), changes: 1}) // in place of the other
	}
	c.put("large", &encoded{body: make([]byte, cacheMost+1)})
	if want := cacheBytes / cacheMost; c.known.Len() != want || c.bytes != cacheBytes {
		t.Errorf("%d answers of %d bytes are kept, want %d of %d", c.known.Len(), c.bytes, want, cacheBytes)
	}
	if _, ok := c.get("large", 0); ok {
		t.Error("an answer that is too large is kept")
	}
	if _, ok := c.get("99", 0); ok {
		t.Error("an answer of other changes is given out")
	}
}

func TestAnswersAsCSVAndCompressed(t *testing.T) {
	s := newTables(t)
	s.insert(viewsAt("2025-05-05T10:00:00Z")...)
	app := newApp(t, s)
	base := "/v1/timeseries?from=2025-05-01&to=2025-05-10&interval=day&metrics=views&site=" + s.site
	auth := []string{"Authorization", "Bearer this"}
	for _, test := range []struct {
		url    string
		header []string
		csv    bool
	}{
		{base + "&format=csv", auth, true},
		{base, append(auth, "Accept", "text/csv"), true},
		{base + "&format=json", append(auth, "Accept", "text/csv"), false},
		{base, append(auth, "Accept", "text/html, */*;q=0.1"), false},
	} {
		response, body := fetch(t, app, http.MethodGet, test.url, test.header...)
		isCSV := strings.HasPrefix(response.Header.Get("Content-Type"), "text/csv") && strings.HasPrefix(body, "date,start,end,views\n2025-05-01,")
		if isCSV != test.csv || response.StatusCode != 200 {
			t.Errorf("%s %q: %d %s %.60q", test.url, test.header, response.StatusCode, response.Header.Get("Content-Type"), body)
		}
	}
	if status, _, answer := get(t, app, base+"&format=xml", "this"); status != 400 {
		t.Errorf("format=xml: %d %v", status, answer)
	}
	response, body := fetch(t, app, http.MethodGet, base, append(auth, "Accept-Encoding", "gzip")...)
	if response.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("Content-Encoding is %q", response.Header.Get("Content-Encoding"))
	}
	opened, err := gzip.NewReader(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(opened); err != nil || !strings.Contains(string(text), `"2025-05-10"`) {
		t.Errorf("%.100s, %v", text, err)
	}
}

func TestKeysAreHeldToTheirRate(t *testing.T) {
	now := at("2025-05-05T10:00:00Z")
	rates := newKeyRates(2, func() time.Time { return now })
	taken := 0
	for range 100 {
		if rates.take("a") == nil {
			taken++
		}
	}
	var refused *httpError
	if err := rates.take("a"); taken != 2*keyBurst || !errors.As(err, &refused) || refused.status != 429 || refused.wait <= 0 || refused.wait > time.Second {
		t.Errorf("%d of 100 taken at once, then %+v; want %d and a wait of half a second", taken, refused, 2*keyBurst)
	}
	if err := rates.take("b"); err != nil {
		t.Errorf("another key: %v", err)
	}
	now = now.Add(time.Second)
	taken = 0
	for range 3 {
		if rates.take("a") == nil {
			taken++
		}
	}
	if taken != 2 {
		t.Errorf("%d taken after a second, want 2", taken)
	}
}

func TestSameQuestionsRunOnce(t *testing.T) {
	running := newShared[int]()
	var runs atomic.Int64
	release := make(chan struct{})
	run := func(context.Context) (int, error) {
		runs.Add(1)
		<-release
		return 7, nil
	}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if got, err := running.do(context.Background(), "key", run); got != 7 || err != nil {
				t.Errorf("got %d, %v", got, err)
			}
		})
	}
	for waiting := 0; waiting < 10; time.Sleep(time.Millisecond) {
		running.mu.Lock()
		if r := running.running["key"]; r != nil {
			waiting = r.waiting
		}
		running.mu.Unlock()
	}
	close(release)
	all.Wait()
	if runs.Load() != 1 {
		t.Errorf("run %d times, want once", runs.Load())
	}
}

// What runs for several goes on when one of them leaves, and ends when the last one does.
func TestNobodyWaits(t *testing.T) {
	running := newShared[int]()
	ended := make(chan struct{})
	run := func(ctx context.Context) (int, error) {
		<-ctx.Done()
		close(ended)
		return 0, ctx.Err()
	}
	first, leaveFirst := context.WithCancelCause(context.Background())
	second, leaveSecond := context.WithCancelCause(context.Background())
	results := make(chan error, 2)
	for _, ctx := range []context.Context{first, second} {
		go func() { _, err := running.do(ctx, "key", run); results <- err }()
	}
	for both := false; !both; time.Sleep(time.Millisecond) {
		running.mu.Lock()
		r := running.running["key"]
		both = r != nil && r.waiting == 2
		running.mu.Unlock()
	}
	leaveFirst(errCallerGone)
	if err := <-results; !errors.Is(err, errCallerGone) {
		t.Errorf("the first got %v", err)
	}
	select {
	case <-ended:
		t.Fatal("it ended although one still waits")
	case <-time.After(50 * time.Millisecond):
	}
	leaveSecond(errCallerGone)
	<-results
	<-ended
}

// A caller who hangs up ends what runs for them, over a real connection.
func TestCallerHangsUp(t *testing.T) {
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	asked, ended := make(chan struct{}), make(chan error, 1)
	app.Get("/slow", func(c *fiber.Ctx) error {
		ctx, stop := whileConnected(c)
		defer stop()
		close(asked)
		select {
		case <-ctx.Done():
			ended <- context.Cause(ctx)
		case <-time.After(20 * time.Second):
			ended <- errors.New("nobody noticed")
		}
		return nil
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = app.Listener(listener) }()
	defer func() { _ = app.Shutdown() }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
	<-asked
	select {
	case err := <-ended:
		t.Fatalf("ended while the caller waits: %v", err)
	case <-time.After(3 * connectedEvery):
	}
	_ = conn.Close()
	if err := <-ended; !errors.Is(err, errCallerGone) {
		t.Errorf("got %v, want %v", err, errCallerGone)
	}
}

// SQL in any parameter is a value or an error, and changes no other number.
func TestSQLInEveryParameter(t *testing.T) {
	s := newTables(t)
	s.insert(eventsOfTwoVisits()...)
	app := newApp(t, s)
	const day = "&from=2025-05-05&to=2025-05-05"
	for _, sql := range []string{"' OR 1=1 --", "'); DROP TABLE views; --", "\\' UNION ALL SELECT 1,2,3 --", "{site:String}", "`", "a') OR ('1'='1", "%27%20OR%201=1", "/* */"} {
		value := url.QueryEscape(sql)
		var questions []string
		for q, own := range ownParams {
			for _, name := range append(append([]string{}, commonParams...), append(own, "format")...) {
				question := "/v1/" + string(q) + "?" + name + "=" + value
				if name != "site" {
					question += "&site=" + s.site
				}
				if name != "from" && name != "to" && name != "period" {
					question += day
				}
				if q == Top && name != "dimension" {
					question += "&dimension=path"
				}
				questions = append(questions, question)
			}
			for _, dimension := range []string{"path", "name", "props." + sql, "entry_page", "goal", "visit:source"} {
				for _, op := range []string{"is", "contains", "matches", "matches_wildcard_not"} {
					filter := fmt.Sprintf(`[[%q,%q,[%q]]]`, op, dimension, sql)
					questions = append(questions, "/v1/"+string(q)+"?dimension=source&filters="+url.QueryEscape(filter)+day+"&site="+s.site)
				}
			}
		}
		for _, name := range append(plausibleV1Params, "compare", "interval", "property", "limit", "page") {
			questions = append(questions, "/api/v1/stats/breakdown?property=event:page&"+name+"="+value+"&site_id="+s.site)
		}
		for _, question := range questions {
			response, body := fetch(t, app, http.MethodGet, question, "Authorization", "Bearer all")
			if response.StatusCode >= 500 || strings.Contains(body, "Exception") {
				t.Errorf("%s: %d %s", question, response.StatusCode, body)
			}
		}
		body := fmt.Sprintf(`{"site_id":%q,"metrics":["pageviews"],"date_range":["2025-05-05","2025-05-05"],"dimensions":["event:props:%s"],"filters":[["is_not","event:page",[%q]]]}`, s.site, strings.ReplaceAll(sql, `\`, `\\`), sql)
		if status, got := askPlausible(t, app, http.MethodPost, "/api/v2/query", body, "this"); status >= 500 {
			t.Errorf("%s: %d %v", body, status, got)
		}
	}
	want := map[string]int64{"/": 1, "/rare1": 1, "/a": 1}
	if diff := cmp.Diff(want, s.top("UTC", "dimension", "path", "from", "2025-05-05", "to", "2025-05-05")); diff != "" {
		t.Errorf("the tables changed (-want +got)\n%s", diff)
	}
}
