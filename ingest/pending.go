package ingest

import (
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/oklog/ulid/v2"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
)

const (
	// pendingIdle is for how long after somebody asked for a count the pending views are kept.
	pendingIdle = 10 * time.Minute
	// maxPendingBytes bounds what is kept of them, roughly. Pages beyond it make counts approximate.
	maxPendingBytes = 32 << 20
	pendingPageCost = 96   // bytes of an entry besides its path
	settledKept     = 4096 // segments
	toldKept        = 100_000
	// toldFor is for how long a count that was told keeps later ones from being lower, should it turn out to be too high.
	toldFor = pendingIdle
)

// page is what views are counted by.
type page struct{ site, path string }

// delta is what the views of one page in one segment add up to.
type delta struct {
	n   int64
	ids int64 // of those with an event id, sum of |n|: delivery may find that they were counted before
}

func (d *delta) add(n int64, hasID bool) {
	d.n += n
	if hasID {
		d.ids += magnitude(n)
	}
}

func magnitude(n int64) int64 { return max(n, -n) }

// Pending knows the views that this node has journaled and that are not in the tables yet: with them a count tells what it will be
// once everything is delivered. Delivery reports what it does with each segment; see Sending and Settled.
//
// It begins to take note when a count is first asked for and ends pendingIdle after the last time, so that who never asks pays
// nothing. What was journaled before it began is not in it, which a count has to say.
type Pending struct {
	now func() time.Time

	mu       sync.Mutex
	asked    time.Time // last time; zero: not taking note
	since    time.Time // what was journaled later is in segments
	segments map[ulid.ULID]*pendingSegment
	bytes    int
	sending  map[ulid.ULID]bool
	settled  *lru.Cache[ulid.ULID, struct{}] // those whose note may come late
	told     *lru.Cache[page, toldCount]

	epoch     uint64        // of settled segments
	changed   chan struct{} // closed with the next epoch
	negatives uint64        // of lowered pages
}

type pendingSegment struct {
	pages   map[page]delta
	bytes   int
	partial bool // pages are missing
}

// toldCount is the last count of a page that a caller was told.
type toldCount struct {
	views int64
	exact bool
	at    time.Time // when it was counted
}

// NewPending returns a Pending that takes no note yet.
func NewPending() *Pending { return newPending(time.Now) }

func newPending(now func() time.Time) *Pending {
	p := &Pending{now: now, segments: map[ulid.ULID]*pendingSegment{}, sending: map[ulid.ULID]bool{}, changed: make(chan struct{})}
	var err error
	if p.settled, err = lru.New[ulid.ULID, struct{}](settledKept); err != nil {
		panic(err) // the size is a positive constant
	}
	if p.told, err = lru.New[page, toldCount](toldKept); err != nil {
		panic(err)
	}
	return p
}

// Sending is told before the rows of a segment may reach the tables.
func (p *Pending) Sending(segment ulid.ULID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sending[segment] = true
}

// Settled is told once the rows of a segment are in the tables, or will not be without being journaled anew.
func (p *Pending) Settled(segment ulid.ULID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sending, segment)
	p.settled.Add(segment, struct{}{})
	if s := p.segments[segment]; s != nil {
		p.bytes -= s.bytes
		delete(p.segments, segment)
	}
	p.epoch++
	close(p.changed)
	p.changed = make(chan struct{})
}

// ask begins to take note, or goes on with it. It is called before the asker's own events are journaled.
func (p *Pending) ask() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if !p.onLocked(now) {
		p.since = now
		p.forgetLocked()
	}
	p.asked = now
}

func (p *Pending) onLocked(now time.Time) bool {
	return !p.asked.IsZero() && now.Sub(p.asked) < pendingIdle
}

func (p *Pending) forgetLocked() {
	clear(p.segments)
	p.bytes = 0
	p.told.Purge()
}

// note adds the views of a request that the journal acknowledged. Its paths are copied.
func (p *Pending) note(at journal.Position, views []view) {
	if p == nil || len(views) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked.IsZero() {
		return
	}
	if !p.onLocked(p.now()) {
		p.asked = time.Time{}
		p.forgetLocked()
		return
	}
	for i := range views {
		if v := &views[i]; v.n < 0 {
			p.lowerLocked(v.page, v.n)
		}
	}
	if p.settled.Contains(at.Segment) {
		return // delivered before this note came
	}
	s := p.segments[at.Segment]
	if s == nil {
		s = &pendingSegment{pages: map[page]delta{}}
		p.segments[at.Segment] = s
	}
	for i := range views {
		p.addLocked(s, &views[i])
	}
}

func (p *Pending) addLocked(s *pendingSegment, v *view) {
	d, known := s.pages[v.page]
	if !known {
		cost := len(v.path) + pendingPageCost
		if p.bytes+cost > maxPendingBytes {
			s.partial = true
			return
		}
		s.bytes, p.bytes = s.bytes+cost, p.bytes+cost
		v.page.path = strings.Clone(v.page.path)
	}
	d.add(v.n, v.hasID)
	s.pages[v.page] = d
}

// lowerLocked takes a negative view into account: a count may fall by it.
func (p *Pending) lowerLocked(of page, n int64) {
	p.negatives++
	if told, ok := p.told.Peek(of); ok {
		told.views += n
		p.told.Add(of, told)
	}
}

// glance is what Pending knows of a page at a moment.
type glance struct {
	delta
	doubtful int64 // sum of |n| in segments that are on their way, of which a reading may hold any part
	partial  bool
	since    time.Time

	epoch     uint64
	changed   <-chan struct{}
	negatives uint64
}

func (p *Pending) look(at page) glance {
	p.mu.Lock()
	defer p.mu.Unlock()
	g := glance{since: p.since, epoch: p.epoch, changed: p.changed, negatives: p.negatives}
	for id, s := range p.segments {
		d := s.pages[at]
		g.n += d.n
		g.ids += d.ids
		g.partial = g.partial || s.partial
		if p.sending[id] {
			g.doubtful += magnitude(d.n)
		}
	}
	return g
}

// tell fixes the count that a caller is told: never less than before, but for negative views. g is the glance it was made from.
func (p *Pending) tell(of page, c pageCount, g glance) pageCount {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	before, ok := p.told.Get(of)
	if ok && now.Sub(before.at) < toldFor && before.views > c.views {
		if c.exact && before.exact && !before.at.Before(c.asOf) {
			// It was counted while this one was, and later: what is in this one is in it too.
			c.views = before.views
			return c
		}
		if c.off >= 0 {
			c.off += before.views - c.views
		}
		c.views, c.exact, now = before.views, false, before.at
	}
	if g.negatives == p.negatives {
		p.told.Add(of, toldCount{views: c.views, exact: c.exact, at: now})
	}
	return c
}

// view is what Pending needs to know of an accepted page view.
type view struct {
	page
	n     int64
	hasID bool
}

func (f *frame) noteView(e *schema.Event) {
	if e.Name != schema.PageView {
		return
	}
	start := len(f.paths)
	f.paths = append(f.paths, e.PathKey...) // what grows leaves behind what older paths point into
	f.views = append(f.views, view{page{e.Site, text(f.paths[start:])}, e.N, e.EventID != ""})
}
