package query

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"

	"github.com/pagetally/pagetally/schema"
)

// base is what the tables held of a question's range. It is cut by the time of events, at the edge of a bucket: what happened before
// the cut is the base's, what happened since is Redis'. Each event is on one side, whenever its batch arrives.
type base struct {
	whole  Range // resolved
	cut    int64 // minute since the epoch
	before Figures
	total  Figures // of the whole range: what Redis lost is in it
	asOf   time.Time

	read time.Time
	mu   sync.Mutex
	busy bool      // somebody reads the next one
	next time.Time // not before, after a failure
}

const (
	// baseFresh is the age at which a base is read anew beside the answer, baseStale the one at which the answer waits for it. Reading
	// takes the engine's threads from those who wait for answers, and what it brings, Redis mostly has.
	baseFresh = 30 * time.Second
	baseStale = 2 * time.Minute
	// basePatience is how long an answer that could be given waits for a newer base.
	basePatience = 500 * time.Millisecond
	// baseRetry is the pause after a base that could not be read.
	baseRetry   = 2 * time.Second
	baseTurns   = 2 // bases that are read beside answers at once
	basesKept   = 20_000
	baseTimeout = 10 * time.Second
	// baseOpen is how long before now a cut is at least: most events are in the tables by then, so that a base seldom lacks any.
	baseOpen = 5 * time.Minute
)

// errNoBase says that neither Redis alone nor the tables can answer.
var errNoBase = errors.New("the base of recent counts cannot be read")

// bases are the bases of the questions that were asked lately.
type bases struct {
	store  *Store
	hot    *Hot
	now    func() time.Time
	known  *lru.Cache[string, *base]
	flight singleflight.Group
	turns  chan struct{}

	renewals sync.WaitGroup
}

func newBases(store *Store, hot *Hot, now func() time.Time) *bases {
	known, err := lru.New[string, *base](basesKept)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &bases{store: store, hot: hot, now: now, known: known, turns: make(chan struct{}, baseTurns)}
}

// StopReading waits for bases that are read beside answers. It is called when no more questions come, and takes baseTimeout at most.
func (s *Server) StopReading() { s.recent.renewals.Wait() }

// baseKey names a question but for the moment at which it is asked.
func baseKey(r *Request) string {
	key := strings.Join([]string{r.Site, r.Path, r.Name, r.Range.Loc.String()}, "\x00")
	for _, m := range r.Metrics {
		key += "\x00" + string(m)
	}
	if r.Range.All {
		return key
	}
	return fmt.Sprint(key, "\x00", r.Range.From.UnixMilli(), " ", r.Range.To.UnixMilli())
}

// get returns the base of a question: at once while it is fresh or nearly so, and when the tables cannot be read also a later one.
func (b *bases) get(ctx context.Context, r Request) (*base, error) {
	r.Explanation = nil // of a base that others may share, nobody is told
	key, now := baseKey(&r), b.now()
	old, ok := b.known.Get(key)
	if ok && !old.reaches(now) {
		old, ok = nil, false
	}
	if !ok {
		return b.await(ctx, b.begin(ctx, key, r))
	}
	age := now.Sub(old.read)
	switch {
	case age < baseFresh || !old.mayRenew(now):
		return old, nil
	case age < baseStale:
		b.renew(ctx, key, r, old)
		return old, nil
	}
	patience, cancel := context.WithTimeout(ctx, basePatience)
	defer cancel()
	if fresh, err := b.await(patience, b.begin(ctx, key, r)); err == nil {
		return fresh, nil
	}
	old.failed(now)
	return old, nil
}

// reaches reports whether Redis still holds every minute since the cut.
func (b *base) reaches(now time.Time) bool { return now.Unix()/60-b.cut <= schema.HotPageMinutes }

func (b *base) mayRenew(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.busy && !now.Before(b.next)
}

func (b *base) failed(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next = now.Add(baseRetry)
}

// renew reads the base anew beside the answer if it is nobody's turn yet. Then the answers go on with the old one.
func (b *bases) renew(ctx context.Context, key string, r Request, old *base) {
	select {
	case b.turns <- struct{}{}:
	default:
		return
	}
	old.mu.Lock()
	busy := old.busy
	old.busy = true
	old.mu.Unlock()
	if busy {
		<-b.turns
		return
	}
	b.renewals.Go(func() {
		defer func() { <-b.turns }()
		if r.Range.All {
			r.Range = allOf(old.whole.From, r.Now, r.Range.Loc) // where it begins is known
		}
		_, err := b.readKept(ctx, key, r)
		old.mu.Lock()
		defer old.mu.Unlock()
		if old.busy = false; err != nil {
			old.next = b.now().Add(baseRetry)
		}
	})
}

// begin reads a base for all who want it now.
func (b *bases) begin(ctx context.Context, key string, r Request) <-chan singleflight.Result {
	return b.flight.DoChan(key, func() (any, error) { return b.readKept(ctx, key, r) })
}

func (b *bases) await(ctx context.Context, done <-chan singleflight.Result) (*base, error) {
	select {
	case result := <-done:
		if result.Err != nil {
			return nil, fmt.Errorf("%w: %w", errNoBase, result.Err)
		}
		return result.Val.(*base), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", errNoBase, ctx.Err())
	}
}

// readKept does not end with the request that began it, since others may wait for it.
func (b *bases) readKept(ctx context.Context, key string, r Request) (*base, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), baseTimeout)
	defer cancel()
	fresh, err := b.readBase(ctx, r)
	if err == nil {
		b.known.Add(key, fresh)
	}
	return fresh, err
}

// readBase asks the tables for both sides of the cut.
func (b *bases) readBase(ctx context.Context, r Request) (*base, error) {
	fresh := &base{read: b.now(), asOf: b.store.asOf(), before: noFigures(r.Metrics)}
	if err := b.store.resolve(ctx, &r); err != nil {
		return nil, err
	}
	fresh.whole = r.Range
	cut, err := cutOf(&r, fresh.read)
	if err != nil {
		return nil, err
	}
	fresh.cut = cut / 60_000
	at := time.UnixMilli(cut)
	side := r
	if r.Range.From.Before(at) {
		side.Range = instantRange(r.Range.From, at, r.Range.Loc)
		before, err := b.store.Count(ctx, side)
		if err != nil {
			return nil, err
		}
		fresh.before = before.Figures
	}
	side.Range = instantRange(at, r.Range.To, r.Range.Loc)
	after, err := b.store.Count(ctx, side)
	if err != nil {
		return nil, err
	}
	fresh.total = noFigures(r.Metrics)
	for _, m := range r.Metrics {
		old, _ := fresh.before.Get(m)
		young, _ := after.Get(m)
		fresh.total.set(m, old+young)
	}
	return fresh, nil
}

// cutOf is the edge of a bucket at which the range is cut, in Unix milliseconds: its beginning if it has only just begun.
func cutOf(r *Request, now time.Time) (int64, error) {
	cut := max(floorBucket(now.Add(-baseOpen).UnixMilli()), r.Range.From.UnixMilli())
	if cut%bucketMS != 0 || cut > now.UnixMilli() || !r.Range.To.After(now) {
		return 0, errOtherRange
	}
	return cut, nil
}
