package aggregate

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/pagetally/pagetally/schema/embedded/embeddedtest"
)

// TestKilledWithinALargeInsert kills the delivering process, or the engine under it, at any moment of an INSERT that takes its time.
func TestKilledWithinALargeInsert(t *testing.T) {
	rounds, rows := 4, 5000
	if os.Getenv("PAGETALLY_TORTURE") != "" {
		rounds, rows = 20, 50_000
	}
	server := embeddedtest.Start(t, embeddedtest.Options{Fsync: true})
	r := newRigOn(t, server)
	r.close()
	random := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	killed, spent := 0, time.Duration(0)
	for round := range rounds {
		r.open(journalOptions())
		const request = 500
		for range rows / request {
			r.batch(true, r.some(request, nil)...)
		}
		r.seal()
		r.close()
		var in time.Duration
		if spent > 0 { // the first round tells how long it takes
			in = time.Duration(random.Int64N(int64(spent)))
		}
		began := time.Now()
		switch {
		case round == 0:
			r.child(0)
			spent = time.Since(began)
		case round%2 == 1:
			if r.childKilledIn(in) {
				killed++
			}
		default:
			crash := time.AfterFunc(in, func() {
				if err := server.Crash(); err != nil {
					t.Errorf("crash: %v", err)
				}
			})
			r.child(0)
			if !crash.Stop() {
				killed++
			}
		}
		r.child(0)
		if err := server.Engine().Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.requireExact()
		r.requireBalanced(int64((round + 1) * rows))
		if t.Failed() {
			t.Fatalf("in round %d, %v into a delivery of %v", round, in, spent)
		}
	}
	if rounds >= 20 && killed < 5 {
		t.Errorf("only %d rounds were struck", killed)
	}
	t.Logf("%d of %d rounds were struck within %v", killed, rounds-1, spent)
}
