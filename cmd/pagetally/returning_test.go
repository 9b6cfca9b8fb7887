package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// returned is the answer of ?return=count.
type returned struct {
	Counts []struct {
		Index int
		Path  string
		Views int64
	}
	Meta struct {
		Exact       map[string]bool
		OffBy       map[string]int64 `json:"off_by"`
		Unavailable string
	}
}

func (p *process) returning(params, body string) (returned, error) {
	var got returned
	request, err := http.NewRequest(http.MethodPost, p.url+"/v1/events?return=count"+params, strings.NewReader(body))
	if err != nil {
		return got, err
	}
	request.Header.Set("User-Agent", browser)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return got, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return got, err
	}
	if response.StatusCode/100 != 2 {
		return got, fmt.Errorf("status %d: %s", response.StatusCode, text)
	}
	return got, json.Unmarshal(text, &got)
}

// testReturning: each event brings its page's count back, while everything is delivered for real: a lone sender's exact counts are
// its own numbers, and several senders' exact counts are never told twice beyond what was sent.
func testReturning(t *testing.T, p *process) {
	const body = `{"site":"example.com","path":"/returned"}`
	exact := 0
	deadline := time.Now().Add(4 * time.Second) // some deliveries
	var sent int64
	for time.Now().Before(deadline) {
		got, err := p.returning("", body)
		sent++
		if err != nil || len(got.Counts) != 1 || got.Counts[0].Path != "/returned" {
			t.Fatalf("got %+v, %v", got, err)
		}
		views, off := got.Counts[0].Views, got.Meta.OffBy["views"]
		switch {
		case got.Meta.Exact["views"]:
			exact++
			if views != sent {
				t.Fatalf("exact count %d after %d events", views, sent)
			}
		case got.Meta.OffBy != nil && (views > sent+off || views < sent-off):
			t.Fatalf("count %d off by %d after %d events", views, off, sent)
		}
	}
	if exact == 0 {
		t.Errorf("none of %d counts was exact", sent)
	}
	t.Logf("%d of %d counts were exact", exact, sent)

	// What others send at the same time may be in a count or not, unless it is exact; no count is lower than one that was told before.
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			var last int64
			for range 25 {
				got, err := p.returning("", body)
				if err != nil || len(got.Counts) != 1 || got.Counts[0].Views < last {
					t.Errorf("got %+v after %d, %v", got, last, err)
					return
				}
				last = got.Counts[0].Views
			}
		})
	}
	all.Wait()
	sent += 100
	p.awaitCount("/returned", sent)
	got, err := p.returning("&ack=stored", `{"site":"example.com","path":"/returned","id":"once"}`)
	if err != nil || len(got.Counts) != 1 || got.Counts[0].Views < sent+1 {
		t.Errorf("got %+v, %v, want %d", got, err, sent+1)
	}
}

// testBadges: a badge of a site that allows it is fresh within two seconds of the count itself.
func testBadges(t *testing.T, p *process) {
	for _, path := range []string{"/badge/x.svg?site=example.com", "/badge/x.svg?site=nowhere.example", "/badge/x.svg"} {
		if status, body := p.get(path, nil); status != http.StatusNotFound || !strings.Contains(body, "not_found") {
			t.Errorf("%s without the setting: %d %s", path, status, body)
		}
	}
	if stdout, stderr, code := pagetally(t, "sites", "add", "badge.example", "--badge", "--data="+p.data); code != 0 {
		t.Fatalf("sites add: %d %s %s", code, stdout, stderr)
	}
	eventually(t, 20*time.Second, func() error {
		if status, body := p.get("/badge/x.json", nil); status != http.StatusOK || !strings.HasPrefix(body, `{"site":"badge.example","path":"/x","views":0,"as_of":"`) {
			return fmt.Errorf("status %d: %s", status, body)
		}
		return nil
	})
	if _, err := p.returning("&ack=stored", `{"site":"badge.example","path":"/x","n":12345}`); err != nil {
		t.Fatal(err)
	}
	eventually(t, 2*time.Second, func() error {
		if _, body := p.get("/badge/x.svg?label=Aufrufe", nil); !strings.Contains(body, ">12,345<") || !strings.Contains(body, ">Aufrufe<") {
			return fmt.Errorf("badge %s", body)
		}
		return nil
	})
	if status, body := p.get("/counter/%2Fx.json?site=badge.example", nil); status != http.StatusOK || !strings.HasPrefix(body, `{"count":"`) {
		t.Errorf("counter: %d %s", status, body)
	}
}
