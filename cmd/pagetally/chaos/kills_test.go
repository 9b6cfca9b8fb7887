package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestChaosKills kills pagetally, its engine or both at random moments under load.
func TestChaosKills(t *testing.T) {
	s := newServer(t)
	h := &hunt{t: t, server: s, random: rand.New(rand.NewPCG(seed(), 0))}
	h.run(rounds(), h.round)
	s.stop()
}

// run strikes in so many rounds, under load from before the first to after the last, and counts everything then.
func (h *hunt) run(rounds int, strike func(i int)) {
	t, s, r := h.t, h.server, newRecord()
	t.Helper()
	t.Logf("seed %d, %d rounds", seed(), rounds)
	t.Cleanup(func() { h.report(r) })
	s.start()
	eventually(t, time.Minute, "first start", s.ready)
	senders := launch(s, r, seed(), addKey(t, s))
	for i := range rounds {
		strike(i)
	}
	eventually(t, time.Minute, "last start", s.ready)
	if err := senders.finish(time.Minute); err != nil {
		t.Fatal(err)
	}
	books := drain(t, s, 2*time.Minute)
	replies, refusals, lost := r.counts()
	t.Logf("%d acknowledged requests, %d refused, %d without an answer; ledger %+v", replies, refusals, lost, books)
	if replies < 50*rounds || books.Duplicate == 0 {
		t.Errorf("too little happened for this test to mean anything")
	}
	verify(t, s, r, books)
	t.Logf("%d batches were uncertain", uncertain(t, s))
}

// uncertain is the number of batches that had to be settled: what the kills are for.
func uncertain(t testing.TB, s *server) uint64 {
	t.Helper()
	return scalar(t, s.connect(), `SELECT count() FROM ledger FINAL WHERE outcome IN ('checked', 'filled')`)
}

// addKey makes a key that may send, and waits until the server knows it.
func addKey(t testing.TB, s *server) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := s.command(ctx, "keys", "add", "--name=chaos", "--scope=ingest")
	if err != nil {
		t.Fatal(err)
	}
	key, _, _ := strings.Cut(out, "\n")
	probe := &client{name: "probe", url: s.url, http: reading}
	eventually(t, 30*time.Second, "key", func() error {
		// Nothing in it can be accepted: a server that knows the key says so, one that does not speaks of the key.
		_, detail := probe.try(&request{path: "/v1/events", body: []byte(`[{}]`), headers: map[string]string{"Authorization": "Bearer " + key}})
		if !strings.Contains(detail, ": 400 ") {
			return fmt.Errorf("answer %s", detail)
		}
		return nil
	})
	return key
}

// hunt does the killing and remembers what it did.
type hunt struct {
	t      testing.TB
	server *server
	random *rand.Rand
	log    []string
}

// round waits for a random moment, sometimes one in which a start or a repair is still under way, and kills.
func (h *hunt) round(i int) {
	state := []string{"starting", "ready", "delivering"}[h.random.IntN(3)]
	switch state {
	case "ready":
		eventually(h.t, time.Minute, "recovery", h.server.ready)
	case "delivering":
		h.awaitBatches(2)
	}
	wait := h.moment()
	time.Sleep(wait)
	victim := []string{"pagetally", "pagetally", "engine", "both", "both"}[h.random.IntN(5)]
	h.note("%3d %s for %s: kill %s", i, state, wait.Round(time.Millisecond), victim)
	if victim != "pagetally" {
		h.killEngine()
	}
	if victim == "engine" {
		return
	}
	if victim == "both" && h.random.IntN(2) == 0 {
		time.Sleep(h.upTo(50 * time.Millisecond)) // pagetally sees the engine die
	}
	h.server.kill()
	if h.random.IntN(3) == 0 {
		time.Sleep(h.upTo(time.Second))
	}
	if victim == "both" && h.random.IntN(3) == 0 {
		for _, pid := range h.server.engines() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	h.server.start()
}

// awaitBatches waits until so many batches more are stored.
func (h *hunt) awaitBatches(more int64) {
	h.t.Helper()
	first := int64(-1)
	eventually(h.t, 2*time.Minute, "delivery", func() error {
		var l ledger
		if err := h.server.get("/v1/ledger", &l); err != nil {
			return err
		}
		if first < 0 {
			first = l.Batches
		}
		if l.Batches < first+more {
			return fmt.Errorf("ledger %+v", l)
		}
		return nil
	})
}

// moment is how long a round lets things go on: often a blink, sometimes longer than a segment and its delivery take.
func (h *hunt) moment() time.Duration {
	if h.random.IntN(3) == 0 {
		return h.upTo(100 * time.Millisecond)
	}
	return h.upTo(2 * time.Second)
}

func (h *hunt) upTo(most time.Duration) time.Duration {
	return time.Duration(h.random.Int64N(int64(most)))
}

func (h *hunt) killEngine() {
	pid, ok := h.server.awaitEngine(20 * time.Second)
	if !ok {
		h.note("    no engine to kill")
		return
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}

func (h *hunt) note(format string, args ...any) {
	h.log = append(h.log, time.Now().Format(timeOfDay)+" "+fmt.Sprintf(format, args...))
}

// report prints what is needed to understand a failure.
func (h *hunt) report(r *record) {
	if !h.t.Failed() {
		return
	}
	h.t.Logf("seed %d (-chaos.seed), rounds:\n%s", seed(), strings.Join(h.log, "\n"))
	h.server.report()
}

// report prints the journal, the ledger and the last lines of the log.
func (s *server) report() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	listing, err := s.command(ctx, "journal", "list")
	s.t.Logf("journal (error %v):\n%s", err, listing)
	s.t.Logf("log:\n%s", s.log)
	if s.ready() != nil {
		return
	}
	var books ledger
	err = s.get("/v1/ledger", &books)
	s.t.Logf("books %+v (error %v), last batches by state:", books, err)
	rows, err := s.connect().Query(ctx, `SELECT toString(tuple(batch, state, at, segments, rows, n, outcome, accepted, stored, duplicate, parked))
		FROM ledger FINAL ORDER BY batch DESC, state LIMIT 40`)
	if err != nil {
		s.t.Logf("ledger: %v", err)
		return
	}
	defer func() { _ = rows.Close() }()
	for line := ""; rows.Next() && rows.Scan(&line) == nil; {
		s.t.Log(line)
	}
}
