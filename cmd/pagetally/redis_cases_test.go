package main

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pagetally/pagetally/aggregate/redistest"
)

// TestFrozenRedis freezes Redis under load: beacons are answered as ever and counted, and the last hour is whole again soon after.
func TestFrozenRedis(t *testing.T) {
	frozen := 6 * time.Second
	if os.Getenv("PAGETALLY_TORTURE") != "" {
		frozen = time.Minute
	}
	server := redistest.Start(t)
	p := startServer(t, t.TempDir(), "--site=example.com", "--redis=redis://"+server.Addr()+"/0")
	p.awaitRealtime("example.com", 0, "hot")
	server.Pause()
	var sent int64
	var took []time.Duration
	for end := time.Now().Add(frozen); time.Now().Before(end); sent++ {
		began := time.Now()
		p.send("/frozen")
		took = append(took, time.Since(began))
		time.Sleep(20 * time.Millisecond)
	}
	slices.Sort(took)
	if p99 := took[len(took)*99/100]; p99 > 500*time.Millisecond {
		t.Errorf("with Redis frozen the 99th of 100 beacons took %s", p99)
	}
	p.awaitCount("/frozen", sent) // before Redis is back
	var ready readiness
	if status, body := p.get("/readyz", &ready); status != http.StatusOK || ready.Parts["redis"].Ready {
		t.Errorf("readyz with Redis frozen: %d %s", status, body)
	}
	server.Resume()
	eventually(t, time.Minute, func() error {
		var now realtimeAnswer
		p.get("/v1/realtime?site=example.com", &now)
		if now.Views.Last5 != sent {
			return fmt.Errorf("realtime has %d views from %s, want %d", now.Views.Last5, now.Meta.Source, sent)
		}
		return nil
	})
}

// TestFullRedis fills Redis with pages up to its limit, which then refuses writes or evicts what it has: what is shown is never below what
// is stored, and what is stored is exact.
func TestFullRedis(t *testing.T) {
	for _, policy := range []string{"noeviction", "allkeys-lru"} {
		t.Run(policy, func(t *testing.T) {
			server := redistest.Start(t, "--maxmemory", "2mb", "--maxmemory-policy", policy)
			p := startServer(t, t.TempDir(), "--site=example.com", "--redis=redis://"+server.Addr()+"/0")
			p.awaitPart("clickhouse", true)
			const pages, batch = 50_000, 5000
			shown := int64(0)
			for from := 0; from < pages; from += batch {
				items := make([]string, batch)
				for i := range items {
					items[i] = fmt.Sprintf(`{"site":"example.com","path":"/page/%d"}`, from+i)
				}
				response, err := http.Post(p.url+"/v1/events", "application/json", strings.NewReader("["+strings.Join(items, ",")+"]"))
				if err != nil {
					t.Fatal(err)
				}
				if body := p.read(response, nil); response.StatusCode != http.StatusAccepted {
					t.Fatalf("%d %s", response.StatusCode, body)
				}
				var stored struct{ Views int64 }
				p.get("/v1/count?site=example.com&metrics=views", &stored)
				answer, err := p.recent("")
				if err != nil {
					t.Fatal(err)
				}
				if answer.Views < stored.Views || answer.Views < shown {
					t.Errorf("recent views are %d from %s, after %d were shown and %d are stored", answer.Views, answer.Meta.Source, shown, stored.Views)
				}
				shown = answer.Views
			}
			eventually(t, time.Minute, func() error {
				var stored struct{ Views int64 }
				if _, body := p.get("/v1/count?site=example.com&metrics=views", &stored); stored.Views != pages {
					return fmt.Errorf("stored: %s", body)
				}
				return nil
			})
		})
	}
}
