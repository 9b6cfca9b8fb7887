package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pagetally/pagetally/aggregate/redistest"
)

// claim sends events of the page /claimed with these ids; "" is an event without one.
func (p *process) claim(ids ...string) {
	p.t.Helper()
	for _, id := range ids {
		body := `{"site":"example.com","path":"/claimed"}`
		if id != "" {
			body = `{"site":"example.com","path":"/claimed","id":"` + id + `"}`
		}
		eventually(p.t, 30*time.Second, func() error {
			response, err := http.Post(p.url+"/v1/events", "application/json", strings.NewReader(body))
			if err != nil {
				return err
			}
			if text := p.read(response, nil); response.StatusCode != http.StatusAccepted {
				return fmt.Errorf("%d %s", response.StatusCode, text)
			}
			return nil
		})
	}
}

// awaitPart waits until /readyz says of a part that it is ready, or that it is not.
func (p *process) awaitPart(part string, want bool) {
	p.t.Helper()
	eventually(p.t, 30*time.Second, func() error {
		var ready readiness
		if _, body := p.get("/readyz", &ready); ready.Parts[part].Ready != want {
			return fmt.Errorf("/readyz: %s, want %s %v", body, part, want)
		}
		return nil
	})
}

// claimBooks are what the ledger says of events with ids.
type claimBooks struct{ Stored, Duplicate, Parked int64 }

func (p *process) awaitBooks(want claimBooks) {
	p.t.Helper()
	eventually(p.t, 30*time.Second, func() error {
		var books claimBooks
		if _, body := p.get("/v1/ledger", &books); books != want {
			return fmt.Errorf("books %s, want %+v", body, want)
		}
		return nil
	})
}

// TestIdsCountOnce sends ids again after whatever may happen to the Redis that knows them, and to pagetally.
func TestIdsCountOnce(t *testing.T) {
	server := redistest.Start(t)
	data, flags := t.TempDir(), []string{"--site=example.com", "--redis=redis://" + server.Addr() + "/0"}
	p := startServer(t, data, flags...)
	p.awaitPart("claims", true)
	p.claim("a", "a")
	p.awaitCount("/claimed", 1)
	if keys, err := server.Client().DBSize(context.Background()).Result(); err != nil || keys == 0 {
		t.Fatalf("%d keys in Redis, %v: claims are not made there", keys, err)
	}

	if err := server.Client().FlushAll(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	p.claim("a", "b", "b")
	p.awaitCount("/claimed", 2)

	server.Kill()
	p.awaitPart("claims", false)
	p.claim("a", "b", "c", "c") // looked up while it is away
	p.awaitCount("/claimed", 3)
	server.Restart() // with nothing in it
	p.awaitPart("claims", true)
	p.claim("a", "b", "c", "d")
	p.awaitCount("/claimed", 4)

	p.stop()
	p = startServer(t, data, flags...)
	p.claim("a", "b", "c", "d", "e")
	p.awaitCount("/claimed", 5)
	p.awaitBooks(claimBooks{Stored: 5, Duplicate: 13})

	if err := server.Client().ConfigSet(context.Background(), "maxmemory-policy", "allkeys-lru").Err(); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := pagetally(t, append([]string{"doctor", "--data=" + data}, flags...)...)
	if code != int(fail) || !strings.Contains(stdout, "noeviction") {
		t.Errorf("doctor of a Redis that evicts: %d %s%s", code, stdout, stderr)
	}
}

// TestIdsWait holds events with an id, and only those, until Redis is back.
func TestIdsWait(t *testing.T) {
	server := redistest.Start(t)
	p := startServer(t, t.TempDir(), "--site=example.com", "--redis=redis://"+server.Addr()+"/0", "--claims=wait")
	p.awaitPart("claims", true)
	p.claim("a")
	p.awaitCount("/claimed", 1)
	server.Kill()
	p.awaitPart("claims", false)
	p.claim("a", "b", "b", "", "")
	p.awaitCount("/claimed", 3)
	p.awaitBooks(claimBooks{Stored: 3, Parked: 3})
	server.Restart()
	p.awaitCount("/claimed", 4)
	p.claim("b")
	p.claim("c")
	p.awaitCount("/claimed", 5)
}

// TestFailover has a sentinel replace the master, whose copy may lack claims.
func TestFailover(t *testing.T) {
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	sentinel := redistest.StartSentinel(t, master)
	client := sentinel.Client()
	eventually(t, 30*time.Second, func() error { // it finds the replica by asking the master
		found, err := client.Do(context.Background(), "SENTINEL", "REPLICAS", redistest.MasterName).Slice()
		if err != nil || len(found) != 1 {
			return fmt.Errorf("replicas %v, %v", found, err)
		}
		return nil
	})
	p := startServer(t, t.TempDir(), "--site=example.com", "--redis=redis://"+sentinel.Addr()+"/0?master_name="+redistest.MasterName)
	p.awaitPart("claims", true)
	want := int64(0)
	for i := range 40 {
		if i == 10 {
			master.Kill()
		}
		p.claim(fmt.Sprint("id-", i), fmt.Sprint("id-", max(0, i-3)))
		want++
		time.Sleep(50 * time.Millisecond)
	}
	p.awaitCount("/claimed", want)
	eventually(t, 30*time.Second, func() error {
		role, err := replica.Client().Do(context.Background(), "ROLE").Slice()
		if err != nil || len(role) == 0 || role[0] != "master" {
			return fmt.Errorf("role of the replica: %v, %v", role, err)
		}
		return nil
	})
	p.awaitPart("claims", true)
	for i := range 40 {
		p.claim(fmt.Sprint("id-", i))
	}
	p.claim("last")
	p.awaitCount("/claimed", want+1)
}
