package ingest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
)

// fakeTables are what a delivery and the tables would be. asOf is that of the journal, which tests let age.
type fakeTables struct {
	mu    sync.Mutex
	views map[page]int64
	reads int
	asOf  time.Time
	fail  error
}

func (f *fakeTables) Total(_ context.Context, site, path string) (int64, time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads++
	asOf := f.asOf
	if asOf.IsZero() {
		asOf = time.Now()
	}
	return f.views[page{site, path}], asOf, f.fail
}

// returningRig is a rig whose journal can be delivered into fake tables.
type returningRig struct {
	*rig
	tables  *fakeTables
	pending *Pending
}

func newReturningRig(t *testing.T) *returningRig {
	r := &returningRig{tables: &fakeTables{views: map[page]int64{}}, pending: NewPending()}
	r.rig = newRig(t, func(c *Config) { c.Totals, c.Pending = r.tables, r.pending })
	return r
}

// store puts all that is journaled into the tables.
func (r *returningRig) store() {
	r.t.Helper()
	if err := r.journal.Seal(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	infos, err := r.journal.List(journal.StateSealed)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, info := range infos {
		r.send(info.ID)
		if err := r.journal.Remove(journal.StateSealed, info.ID); err != nil {
			r.t.Fatal(err)
		}
		r.pending.Settled(info.ID)
	}
}

// send puts a segment's views into the tables and leaves it to the caller to settle it.
func (r *returningRig) send(id ulid.ULID) {
	r.t.Helper()
	r.pending.Sending(id)
	segment, err := r.journal.Read(journal.StateSealed, id)
	if err != nil {
		r.t.Fatal(err)
	}
	r.tables.mu.Lock()
	defer r.tables.mu.Unlock()
	for frame := range segment.Frames {
		for rest := frame.Payload; rest != ""; {
			var e schema.Event
			if rest, err = schema.DecodeEvent(rest, &e); err != nil {
				r.t.Fatal(err)
			}
			if e.Name == schema.PageView {
				r.tables.views[page{e.Site, e.PathKey}] += e.N
			}
		}
	}
}

// ask posts with return=count.
func (r *returningRig) ask(body string, headers ...string) nativeReply {
	r.t.Helper()
	return r.askWith("", body, append(headers, bearer(ingestSecret))...)
}

func (r *returningRig) askWith(params, body string, headers ...string) nativeReply {
	r.t.Helper()
	got := r.do("POST", "/v1/events?return=count"+params, []byte(body), headers...)
	if got.status != 202 {
		r.t.Fatalf("status %d: %s", got.status, got.body)
	}
	return decodeReply(r.t, got.body)
}

func (r *returningRig) want(got nativeReply, exact bool, offBy int64, counts ...itemCount) {
	r.t.Helper()
	if diff := cmp.Diff(counts, got.Counts); diff != "" {
		r.t.Errorf("(-want +got)\n%s", diff)
	}
	if got.Meta == nil || got.Meta.Unavailable != "" || got.Meta.Exact["views"] != exact || got.Meta.OffBy["views"] != offBy || got.Meta.AsOf == "" {
		r.t.Errorf("meta is %+v, want exact %t, off by %d", got.Meta, exact, offBy)
	}
}

func TestCountsComeBack(t *testing.T) {
	r := newReturningRig(t)
	r.tables.views[page{"example.com", "/a"}] = 10
	r.want(r.ask(`[{"site":"example.com","path":"/a/"},{"site":"example.com","url":"https://example.com/b?x=1"},{"site":"nowhere.example","path":"/"},{"site":"example.com","path":"/a","name":"signup"}]`),
		true, 0, itemCount{0, "/a", 11}, itemCount{1, "/b", 1}, itemCount{3, "/a", 11})
	r.beacon(202, `{"n":"pageview","u":"https://example.com/a","d":"example.com"}`)
	r.want(r.ask(`{"site":"example.com","path":"/a","n":5}`), true, 0, itemCount{0, "/a", 17})
	r.store()
	r.want(r.ask(`{"site":"example.com","path":"/a"}`), true, 0, itemCount{0, "/a", 18})
	r.want(r.ask(`{"site":"example.com","path":"/a","n":-8}`), true, 0, itemCount{0, "/a", 10})
	r.store()
	r.want(r.ask(`{"site":"example.com","path":"/a"}`), true, 0, itemCount{0, "/a", 11})

	// An id may have been counted before, which delivery finds out.
	r.want(r.ask(`{"site":"example.com","path":"/a","id":"x"}`), false, 1, itemCount{0, "/a", 12})
	if got := r.post(202, `{"site":"example.com","path":"/a"}`, bearer(ingestSecret)); got.Counts != nil || got.Meta != nil {
		t.Errorf("counts that nobody asked for: %+v", got)
	}
	if got := r.do("POST", "/v1/events?return=counts", []byte(`{}`), bearer(ingestSecret)); got.status != 400 || !strings.Contains(got.body, `"return"`) {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// A count never falls, even if what it was made of turns out to be less: it is told as off by the difference.
func TestCountsDoNotFall(t *testing.T) {
	r := newReturningRig(t)
	r.want(r.ask(`[{"site":"example.com","path":"/a","id":"x"},{"site":"example.com","path":"/a","id":"y"}]`), false, 2, itemCount{0, "/a", 2}, itemCount{1, "/a", 2})
	r.store()
	r.tables.views[page{"example.com", "/a"}] = 0 // both were counted elsewhere
	r.want(r.ask(`{"site":"example.com","path":"/a"}`), false, 1, itemCount{0, "/a", 2})
	r.want(r.ask(`{"site":"example.com","path":"/a"}`), true, 0, itemCount{0, "/a", 2})
	r.want(r.ask(`{"site":"example.com","path":"/a","n":-1}`), true, 0, itemCount{0, "/a", 1})
}

// A segment that is on its way may be read or not: the count says by how much it may be off, after it has waited a little.
func TestCountsOfSegmentsOnTheirWay(t *testing.T) {
	r := newReturningRig(t)
	r.ask(`{"site":"example.com","path":"/a","n":3}`)
	if err := r.journal.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	infos, err := r.journal.List(journal.StateSealed)
	if err != nil || len(infos) != 1 {
		t.Fatal(infos, err)
	}
	r.send(infos[0].ID)
	start := time.Now()
	r.want(r.ask(`{"site":"example.com","path":"/b"}`), true, 0, itemCount{0, "/b", 1}) // has nothing to do with it
	if took := time.Since(start); took > returnPatience/2 {
		t.Errorf("waited %s for another page", took)
	}
	r.want(r.ask(`{"site":"example.com","path":"/a"}`), false, 3, itemCount{0, "/a", 7})
	time.AfterFunc(returnPatience/5, func() { r.pending.Settled(infos[0].ID) })
	r.pending.told.Purge()
	r.want(r.ask(`{"site":"example.com","path":"/a"}`), true, 0, itemCount{0, "/a", 5})
}

func TestCountsThatAreNotThere(t *testing.T) {
	r := newReturningRig(t)
	unavailable := func(got nativeReply, accepted int, why string) {
		t.Helper()
		if got.Accepted != accepted || got.Receipt == "" || got.Counts == nil || len(got.Counts) != 0 || got.Meta.Unavailable != why || got.Meta.Exact != nil {
			t.Errorf("got %+v %+v, want %d accepted and no counts because: %s", got, got.Meta, accepted, why)
		}
	}
	const one = `{"site":"example.com","path":"/a"}`
	unavailable(r.askWith("", one), 1, errCountKey.Error())
	var many []string
	for i := range maxReturned + 1 {
		many = append(many, fmt.Sprintf(`{"site":"example.com","path":"/%d"}`, i))
	}
	unavailable(r.ask("["+strings.Join(many, ",")+"]"), len(many), errTooManyPages.Error())
	if got := r.ask("[" + strings.Join(many[1:], ",") + "]"); len(got.Counts) != maxReturned {
		t.Errorf("%d counts, want %d", len(got.Counts), maxReturned)
	}
	r.tables.fail = errors.New("secret of the engine")
	unavailable(r.ask(one), 1, "the tables cannot be read now")
	r.tables.fail = nil

	// What was journaled before anybody asked is not known.
	r.tables.asOf = time.Now().Add(-time.Hour)
	if got := r.ask(one); got.Meta.Exact["views"] || got.Meta.OffBy != nil || got.Meta.AsOf != r.tables.asOf.UTC().Format("2006-01-02T15:04:05.999Z07:00") {
		t.Errorf("with a backlog: %+v", got.Meta)
	}

	bare := newRig(t)
	got := bare.do("POST", "/v1/events?return=count", []byte(one), bearer(ingestSecret))
	unavailable(decodeReply(t, got.body), 1, errNoTotals.Error())
}

func TestPendingIsBounded(t *testing.T) {
	p := newPending(time.Now)
	segment := ulid.Make()
	p.note(journal.Position{Segment: segment}, []view{{page{"a", "/"}, 1, false}})
	if len(p.segments) != 0 {
		t.Fatal("took note before anybody asked")
	}
	p.ask()
	path := strings.Repeat("x", schema.MaxPathBytes)
	for i := range maxPendingBytes/schema.MaxPathBytes + 10 {
		p.note(journal.Position{Segment: segment}, []view{{page{"a", fmt.Sprintf("/%d%s", i, path)}, 1, false}})
	}
	if g := p.look(page{"a", "/"}); !g.partial || p.bytes > maxPendingBytes {
		t.Errorf("%d bytes, partial %t", p.bytes, g.partial)
	}
	p.Settled(segment)
	p.note(journal.Position{Segment: segment}, []view{{page{"a", "/"}, 1, false}}) // late
	if g := p.look(page{"a", "/"}); g.partial || g.n != 0 || p.bytes != 0 || len(p.segments) != 0 {
		t.Errorf("after it was settled: %+v, %d bytes", g, p.bytes)
	}
	var now time.Time
	p.now = func() time.Time { return now }
	now = time.Now()
	p.ask()
	now = now.Add(pendingIdle)
	p.note(journal.Position{Segment: ulid.Make()}, []view{{page{"a", "/"}, 1, false}})
	if len(p.segments) != 0 {
		t.Error("goes on taking note although nobody asks")
	}
}

// While events are delivered and others arrive, every exact count lies between what was acknowledged before it was asked for and what
// was sent when it came; callers see counts that do not fall.
func TestCountsAreExactWhileEventsAreDelivered(t *testing.T) {
	r := newReturningRig(t)
	r.ask(`{"site":"example.com","path":"/hot"}`)
	var sent, acknowledged atomic.Int64
	sent.Store(1)
	acknowledged.Store(1)
	stop := make(chan struct{})
	var delivering, senders sync.WaitGroup
	delivering.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Duration(1+rand.IntN(10)) * time.Millisecond):
				r.store()
			}
		}
	})
	var exact atomic.Int64
	for range 4 {
		senders.Go(func() {
			var last int64
			for range 150 {
				sent.Add(1)
				low := acknowledged.Load()
				got := r.ask(`{"site":"example.com","path":"/hot"}`)
				acknowledged.Add(1)
				if len(got.Counts) != 1 {
					t.Errorf("got %+v %+v", got, got.Meta)
					return
				}
				views := got.Counts[0].Views
				if views < last {
					t.Errorf("count fell from %d to %d", last, views)
				}
				last = views
				if got.Meta.Exact["views"] {
					exact.Add(1)
					if high := sent.Load(); views <= low || views > high {
						t.Errorf("exact count %d, want one from %d to %d", views, low+1, high)
					}
				}
			}
		})
	}
	senders.Wait()
	close(stop)
	delivering.Wait()
	r.store()
	r.want(r.ask(`{"site":"example.com","path":"/hot"}`), true, 0, itemCount{0, "/hot", sent.Load() + 1})
	if exact.Load() < 300 {
		t.Errorf("%d of 600 counts were exact", exact.Load())
	}
	t.Logf("%d of 600 counts were exact, %d readings", exact.Load(), r.tables.reads)
}
