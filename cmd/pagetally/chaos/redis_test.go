package chaos

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pagetally/pagetally/aggregate/redistest"
)

// TestChaosRedis strikes the Redis that holds claims and hot counts, with and without persistence, and between that pagetally and its
// engine. Senders repeat events under their ids all the while.
func TestChaosRedis(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
	}{
		{"nothing persists", nil},
		{"everything persists", []string{"--appendonly", "yes", "--appendfsync", "always"}},
		{"an old snapshot is left", []string{"--save", "1 1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			store := redistest.Start(t, test.args...)
			s := newServer(t, "--redis=redis://"+store.Addr()+"/0")
			h := &hunt{t: t, server: s, random: rand.New(rand.NewPCG(seed(), 1))}
			h.run(max(6, rounds()/4), func(i int) {
				if h.random.IntN(3) == 0 {
					h.round(i)
				} else {
					h.strikeRedis(i, store)
				}
			})
		})
	}
}

// strikeRedis does to Redis what happens to servers, at a random moment, and undoes it a little later.
func (h *hunt) strikeRedis(i int, store *redistest.Server) {
	wait, outage := h.moment(), h.upTo(2*time.Second)
	strikes := []struct {
		name string
		do   func()
	}{
		{"kill", func() { store.Kill(); time.Sleep(outage); store.Restart() }},
		{"restart", func() { store.Stop(); store.Restart() }},
		{"pause", func() { store.Pause(); time.Sleep(outage); store.Resume() }},
		{"flush", func() {
			if err := store.Client().FlushAll(context.Background()).Err(); err != nil {
				h.t.Errorf("flush: %v", err)
			}
		}},
	}
	strike := strikes[h.random.IntN(len(strikes))]
	time.Sleep(wait)
	h.note("%3d after %s: %s Redis, for %s at most", i, wait.Round(time.Millisecond), strike.name, outage.Round(time.Millisecond))
	strike.do()
}
