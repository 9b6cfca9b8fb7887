package query

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// All who ask for a count at a time wait for one reading, and who asks within a second of its beginning gets it too.
func TestPublicCountIsReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		p := newPublicReader(func(context.Context, Request) (CountResult, error) {
			time.Sleep(300 * time.Millisecond)
			var r CountResult
			r.set(Views, reads.Add(1))
			return r, nil
		}, time.Now)
		got := make(chan int64, 100)
		ask := func() {
			r, err := p.get(t.Context(), publicCount{key: "a"})
			if err != nil {
				t.Error(err)
			}
			n, _ := r.Get(Views)
			got <- n
		}
		for range cap(got) {
			go ask()
		}
		synctest.Wait()
		for range cap(got) {
			if n := <-got; n != 1 {
				t.Fatalf("reading %d, want the first", n)
			}
		}
		time.Sleep(600 * time.Millisecond)
		ask()
		time.Sleep(100 * time.Millisecond) // a second after the reading began
		ask()
		if kept, fresh := <-got, <-got; kept != 1 || fresh != 2 {
			t.Errorf("readings %d and %d, want 1 and 2", kept, fresh)
		}
	})
}

// However many counts are asked for, publicTurns are read at once; who gets no turn is told so, and a failure is not kept.
func TestPublicCountsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		broken := errors.New("broken")
		p := newPublicReader(func(_ context.Context, r Request) (CountResult, error) {
			now := running.Add(1)
			defer running.Add(-1)
			most.Store(max(most.Load(), now))
			time.Sleep(800 * time.Millisecond)
			return CountResult{}, broken
		}, time.Now)
		failures := make(chan error, 20)
		for i := range cap(failures) {
			go func() {
				_, err := p.get(t.Context(), publicCount{key: fmt.Sprint(i)})
				failures <- err
			}()
		}
		read, busy := 0, 0
		for range cap(failures) {
			switch err := <-failures; {
			case errors.Is(err, broken):
				read++
			case errors.Is(err, ErrBusy):
				busy++
			default:
				t.Errorf("got %v", err)
			}
		}
		if most.Load() != publicTurns || read != 3*publicTurns || busy != cap(failures)-read {
			t.Errorf("%d at once, %d read, %d busy", most.Load(), read, busy)
		}
		if p.known.Len() != 0 {
			t.Error("a failure was kept")
		}
	})
}

// A client that goes away takes nothing from those who wait for the same reading.
func TestPublicCountOutlivesItsAsker(t *testing.T) {
	p := newPublicReader(func(ctx context.Context, _ Request) (CountResult, error) { return CountResult{}, ctx.Err() }, time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.get(ctx, publicCount{key: "a"}); err != nil {
		t.Error(err)
	}
}
