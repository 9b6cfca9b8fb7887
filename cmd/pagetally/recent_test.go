package main

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/pagetally/pagetally/aggregate/redistest"
)

// recentAnswer is the part of a recent count that the tests look at.
type recentAnswer struct {
	Views int64
	Meta  struct {
		Source, Reason string
		AsOf           time.Time `json:"as_of"`
	}
}

// recent asks for a recent count of a page, or of the site.
func (p *process) recent(path string) (answer recentAnswer, err error) {
	status, body := p.get("/v1/count?site=example.com&mode=recent"+pathParam(path), &answer)
	if status != http.StatusOK {
		return answer, fmt.Errorf("status %d: %s", status, body)
	}
	return answer, nil
}

func pathParam(path string) string {
	if path == "" {
		return ""
	}
	return "&path=" + path
}

// sendings are the views of each page, and of the site under "".
type sendings struct {
	mu    sync.Mutex
	begun map[string]int64
	acks  map[string][]time.Time // in order
}

func (s *sendings) begin(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun[path]++
	s.begun[""]++
}

func (s *sendings) acknowledged(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.acks[path] = append(s.acks[path], now)
	s.acks[""] = append(s.acks[""], now)
}

// check holds an answer to what was sent: never above what had begun when it was there, never below what was acknowledged before the
// time that it names.
func (s *sendings) check(t *testing.T, path string, a recentAnswer) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Views > s.begun[path] {
		t.Errorf("%q counts %d views from %s, %d were sent", path, a.Views, a.Meta.Source, s.begun[path])
	}
	var least int64
	for _, at := range s.acks[path] {
		if at.Before(a.Meta.AsOf) {
			least++
		}
	}
	if a.Views < least {
		t.Errorf("%q counts %d views from %s as of %s, %d had been acknowledged by then", path, a.Views, a.Meta.Source, a.Meta.AsOf, least)
	}
}

// run sends until the channel is closed.
func (s *sendings) run(p *process, number int, stop <-chan struct{}) error {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		default:
		}
		path := fmt.Sprintf("/recent/%d", (i+number)%4)
		request, err := http.NewRequest(http.MethodPost, p.url+"/api/event", bytes.NewReader(view(path)))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("User-Agent", browser)
		s.begin(path)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusAccepted {
			return fmt.Errorf("view not accepted: %s", response.Status)
		}
		s.acknowledged(path)
		time.Sleep(25 * time.Millisecond) // each sender is an address with a limit
	}
}

// TestRecent asks for recent counts while views arrive, with each kind of Redis and with one that is killed and emptied meanwhile.
func TestRecent(t *testing.T) {
	server := redistest.Start(t)
	url := "redis://" + server.Addr() + "/0"
	for _, test := range []struct {
		name, redis string
		fault       func()
	}{
		{"embedded", "embedded", nil},
		{"server", url, nil},
		{"killed", url, func() {
			server.Kill()
			time.Sleep(500 * time.Millisecond)
			server.Restart()
		}},
		{"flushed", url, func() { server.Client().FlushAll(t.Context()) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			server.Client().FlushAll(t.Context())
			p := startServer(t, t.TempDir(), "--site=example.com", "--redis="+test.redis)
			p.awaitRecent(t, "/recent/0", 0)
			testRecent(t, p, test.fault)
			p.stop()
		})
	}
}

// testRecent: while views arrive each answer is held to them, and when they have stopped it is all of them.
func testRecent(t *testing.T, p *process, fault func()) {
	const during = 6 * time.Second // some deliveries, and a base that is renewed
	s := &sendings{begun: map[string]int64{}, acks: map[string][]time.Time{}}
	stop := make(chan struct{})
	var sending sync.WaitGroup
	for number := range 2 {
		sending.Go(func() {
			if err := s.run(p, number, stop); err != nil {
				t.Error(err)
			}
		})
	}
	sources := map[string]int{}
	begun := time.Now()
	for i := 0; time.Since(begun) < during && !t.Failed(); i++ {
		if fault != nil && time.Since(begun) > during/3 {
			fault()
			fault = nil
		}
		for _, path := range []string{"/recent/0", "/recent/1", ""} {
			a, err := p.recent(path)
			if err != nil {
				t.Fatal(err)
			}
			s.check(t, path, a)
			sources[a.Meta.Source]++
		}
		time.Sleep(10 * time.Millisecond)
	}
	close(stop)
	sending.Wait()
	if sources["recent"] == 0 {
		t.Errorf("no answer came from Redis: %v", sources)
	}
	for _, path := range []string{"/recent/0", "/recent/1", ""} {
		eventually(t, 30*time.Second, func() error {
			a, err := p.recent(path)
			s.check(t, path, a)
			if err == nil && a.Views != s.begun[path] {
				err = fmt.Errorf("%q counts %d views, %d were sent", path, a.Views, s.begun[path])
			}
			return err
		})
	}
	t.Logf("%d views, answers by source %v", s.begun[""], sources)
}

// awaitRecent waits until Redis answers for a page.
func (p *process) awaitRecent(t *testing.T, path string, want int64) {
	t.Helper()
	eventually(t, 60*time.Second, func() error {
		a, err := p.recent(path)
		if err == nil && (a.Meta.Source != "recent" || a.Views != want) {
			err = fmt.Errorf("%d views from %s (%s), want %d, recent", a.Views, a.Meta.Source, a.Meta.Reason, want)
		}
		return err
	})
}
