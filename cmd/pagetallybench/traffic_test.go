//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
)

// TestTraffic: every request is whole, varied, and the same in each run.
func TestTraffic(t *testing.T) {
	first, second := newTraffic(), newTraffic()
	urls, browsers, custom := map[string]bool{}, map[string]bool{}, 0
	for i, request := range first.requests {
		if !bytes.Equal(request, second.requests[i]) {
			t.Fatalf("request %d differs from one run to the next", i)
		}
		in := bufio.NewReader(bytes.NewReader(request))
		r, err := http.ReadRequest(in)
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || in.Buffered() > 0 {
			t.Fatalf("request %d: body %q, %d bytes left, error %v", i, body, in.Buffered(), err)
		}
		var event struct{ N, U, D string }
		if err := json.Unmarshal(body, &event); err != nil || event.D != site {
			t.Fatalf("request %d: %v in %s", i, err, body)
		}
		urls[event.U], browsers[r.UserAgent()] = true, true
		if event.N != "pageview" {
			custom++
		}
	}
	if len(urls) < 1000 || len(browsers) != len(agents) || custom < distinctRequests/20 || custom > distinctRequests/5 {
		t.Errorf("%d pages, %d of %d browsers, %d custom events", len(urls), len(browsers), len(agents), custom)
	}
}

// Each sending has an id of its own, and the request stays whole.
func TestIDsAreWrittenOver(t *testing.T) {
	c := &client{traffic: newTrafficWithIDs(), nextID: 1<<64 - 2}
	seen := map[string]bool{}
	for i := range 100 {
		request, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(c.request(i % 10))))
		if err != nil {
			t.Fatal(err)
		}
		var body struct{ ID, N, U string }
		if err := json.NewDecoder(request.Body).Decode(&body); err != nil {
			t.Fatal(err)
		}
		if len(body.ID) != len(idDigits) || seen[body.ID] || body.N == "" || body.U == "" {
			t.Errorf("body %+v, want an id of its own", body)
		}
		seen[body.ID] = true
	}
}
