package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pagetally/pagetally/aggregate/redistest"
)

// realtimeAnswer is the part of /v1/realtime that the tests look at.
type realtimeAnswer struct {
	Visitors, Views struct {
		Last5  int64 `json:"last_5_minutes"`
		Last30 int64 `json:"last_30_minutes"`
	}
	Minutes []struct{ Views int64 }
	Pages   []struct {
		Value string
		Views int64
	}
	Meta struct{ Source, Reason string }
}

// awaitRealtime waits until a site has want views now, told by source.
func (p *process) awaitRealtime(site string, want int64, source string) (answer realtimeAnswer) {
	p.t.Helper()
	eventually(p.t, 30*time.Second, func() error {
		answer = realtimeAnswer{}
		status, body := p.get("/v1/realtime?site="+site, &answer)
		if status != http.StatusOK || answer.Views.Last5 != want || answer.Meta.Source != source {
			return fmt.Errorf("realtime is %d %.400s, want %d views from %s", status, body, want, source)
		}
		return nil
	})
	return answer
}

// TestRealtime reads the last hour with each kind of Redis: inside the process, a server that dies and comes back, none.
func TestRealtime(t *testing.T) {
	server := redistest.Start(t)
	for _, test := range []struct{ name, redis string }{
		{"embedded", "embedded"}, {"server", "redis://" + server.Addr() + "/0"}, {"off", "off"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := startServer(t, t.TempDir(), "--site=example.com", "--redis="+test.redis)
			source := "hot"
			if test.redis == "off" {
				source = "exact"
			}
			p.awaitRealtime("example.com", 0, source)
			for range 3 {
				p.send("/now")
			}
			p.send("/then")
			got := p.awaitRealtime("example.com", 4, source)
			if got.Visitors.Last5 != 1 || got.Visitors.Last30 != 1 || got.Views.Last30 != 4 || len(got.Minutes) != 60 {
				t.Errorf("answer %+v, want 1 visitor, 4 views and 60 minutes", got)
			}
			if len(got.Pages) != 2 || got.Pages[0].Value != "/now" || got.Pages[0].Views != 3 {
				t.Errorf("pages %+v, want /now with 3 views first", got.Pages)
			}
			if status, body := p.get("/v1/realtime?site=example.com&days=3", nil); status != http.StatusBadRequest || !strings.Contains(body, "days") {
				t.Errorf("unknown parameter: %d %s", status, body)
			}
			if test.name == "server" {
				testRedisDies(t, p, server)
			}
			p.stop()
		})
	}
}

// testRedisDies: ClickHouse answers while Redis is away, the server stays ready, and nothing that was counted meanwhile is missing.
func testRedisDies(t *testing.T, p *process, server *redistest.Server) {
	server.Kill()
	p.send("/now")
	if got := p.awaitRealtime("example.com", 5, "exact"); got.Meta.Reason == "" {
		t.Errorf("no reason is given: %+v", got.Meta)
	}
	p.awaitCount("/now", 4)
	eventually(t, 10*time.Second, func() error {
		var ready readiness
		status, body := p.get("/readyz", &ready)
		if state := ready.Parts["redis"]; status != http.StatusOK || state.Ready || state.Reason == "" {
			return fmt.Errorf("readyz: %d %s, want ready but for redis", status, body)
		}
		return nil
	})
	server.Restart()
	p.send("/now")
	eventually(t, 30*time.Second, func() error {
		var ready readiness
		if _, body := p.get("/readyz", &ready); !ready.Parts["redis"].Ready {
			return fmt.Errorf("readyz: %s", body)
		}
		return nil
	})
	// It came back empty: until it is full again the answer is ClickHouse's, and right.
	p.awaitRealtime("example.com", 6, "exact")
	p.awaitCount("/now", 5)
}

// TestRealtimeStream follows a site over server-sent events, and the server stops although a stream is open.
func TestRealtimeStream(t *testing.T) {
	p := startServer(t, t.TempDir(), "--site=example.com")
	p.awaitRealtime("example.com", 0, "hot")
	response, err := http.Get(p.url + "/v1/realtime/stream?site=example.com")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if got := response.Header.Get("Content-Type"); response.StatusCode != http.StatusOK || got != "text/event-stream" {
		t.Fatalf("%d %s", response.StatusCode, got)
	}
	events := make(chan realtimeAnswer, 100)
	go func() {
		defer close(events)
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var a realtimeAnswer
				if err := json.Unmarshal([]byte(data), &a); err != nil {
					t.Errorf("event %s: %v", data, err)
				}
				events <- a
			}
		}
	}()
	await := func(want int64) {
		t.Helper()
		deadline := time.After(20 * time.Second)
		for {
			select {
			case a, ok := <-events:
				if !ok {
					t.Fatal("the stream ended")
				}
				if a.Views.Last5 == want {
					return
				}
			case <-deadline:
				t.Fatalf("no event says %d views", want)
			}
		}
	}
	await(0)
	p.send("/live")
	await(1)
	p.send("/live")
	await(2)
	if status, _ := p.get("/v1/realtime/stream", nil); status != http.StatusBadRequest {
		t.Errorf("no site: %d, want 400", status)
	}
	p.stop()
	for range events { // until the server's end has ended the stream
	}
}
