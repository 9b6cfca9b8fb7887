package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"
)

// TestHistory sends old events by the batch: many days in one body, and days that the site does not keep.
func TestHistory(t *testing.T) {
	p := startServer(t, t.TempDir(), "--sites=[{domain: long.example}, {domain: short.example, retention-days: 395}]")

	const days = 150
	body := history("long.example", "day", days, 0)
	// Four times more partitions than a block may touch by default, and the second time adds nothing.
	for range 2 {
		if answer := p.batch(body); answer.Accepted != days || len(answer.Errors) != 0 {
			t.Fatalf("answer %+v, want %d accepted", answer, days)
		}
	}
	p.awaitSiteCount("long.example", days)

	old, recent := history("short.example", "old", 10, 400), history("short.example", "recent", 10, 10)
	answer := p.batch(append(old, recent...))
	if answer.Accepted != 10 || len(answer.Errors) != 10 {
		t.Fatalf("answer %+v, want 10 accepted and 10 refused", answer)
	}
	for _, e := range answer.Errors {
		if e.Index >= 10 || e.Field != "ts" || e.Reason != "beyond_retention" {
			t.Errorf("refused %+v, want one of the first ten for its ts, beyond_retention", e)
		}
	}
	p.awaitSiteCount("short.example", 10)
	p.stop()
}

// history is n events as NDJSON, one a day back from so many days ago.
func history(site, id string, n, ago int) []byte {
	var b bytes.Buffer
	for day := range n {
		at := time.Now().UTC().Add(-time.Hour).AddDate(0, 0, -ago-day)
		fmt.Fprintf(&b, `{"site":%q,"path":"/old","id":"%s-%d","ts":%q}`+"\n", site, id, day, at.Format(time.RFC3339))
	}
	return b.Bytes()
}

// batchAnswer is the part of the answer to /v1/events that the tests look at.
type batchAnswer struct {
	Accepted int
	Errors   []struct {
		Index         int
		Field, Reason string
	}
}

func (p *process) batch(body []byte) (answer batchAnswer) {
	p.t.Helper()
	response, err := http.Post(p.url+"/v1/events", "application/x-ndjson", bytes.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	p.read(response, &answer)
	return answer
}

// awaitSiteCount waits until a site has want views over all time; more than want fails at once.
func (p *process) awaitSiteCount(site string, want int64) {
	p.t.Helper()
	eventually(p.t, 20*time.Second, func() error {
		var ledger struct{ Accepted, Stored, Duplicate int64 }
		_, _ = p.get("/v1/ledger", &ledger)
		var answer struct{ Views int64 }
		from := time.Now().UTC().AddDate(-2, 0, 0).Format(time.DateOnly)
		status, body := p.get(fmt.Sprintf("/v1/count?site=%s&path=/old&from=%s&to=%s", site, from, time.Now().UTC().Format(time.DateOnly)), &answer)
		switch {
		case status != http.StatusOK:
			return fmt.Errorf("count: %d %s", status, body)
		case answer.Views > want:
			p.t.Fatalf("%d views, want %d", answer.Views, want)
		case answer.Views < want || ledger.Accepted != ledger.Stored+ledger.Duplicate:
			return fmt.Errorf("%d views, want %d; ledger %+v", answer.Views, want, ledger)
		}
		return nil
	})
}

// TestBeaconsShareInserts: single beacons do not become single inserts, which would make more parts than merges can take in.
func TestBeaconsShareInserts(t *testing.T) {
	events, during := 2000, 2*time.Second
	if os.Getenv("PAGETALLY_TORTURE") != "" {
		events, during = 10_000, 10*time.Second
	}
	p := startServer(t, t.TempDir())
	p.send("/first")
	p.awaitCount("/first", 1)
	const clients = 8
	began := time.Now()
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for i := range events / clients {
				time.Sleep(time.Until(began.Add(during * time.Duration(i) / time.Duration(events/clients))))
				p.send("/many")
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	p.awaitCount("/many", int64(events))
	var ledger struct{ Batches int64 }
	if status, body := p.get("/v1/ledger", &ledger); status != http.StatusOK {
		t.Fatalf("ledger: %d %s", status, body)
	}
	// One for the first event, one for what was open at the end.
	if most := 2*int64(took/time.Second+1) + 2; ledger.Batches < 1 || ledger.Batches > most {
		t.Errorf("%d inserts for %d events in %v, want at most %d", ledger.Batches, events, took, most)
	}
	p.stop()
}
