package chaos

import (
	"maps"
	"sync"
	"time"
)

// page is what counts are asserted by.
type page struct{ name, path string }

// event is one event as its sender knows it.
type event struct {
	id   string // empty: told by its page alone
	page page
	who  string // label of the visitor, one for each (address, agent); empty: a job's event without a visitor
	n    int64
}

// totals of a page.
type totals struct{ rows, n int64 }

// record is what the senders know to be counted.
type record struct {
	mu       sync.Mutex
	pages    map[page]totals
	ids      map[string]time.Time // of acknowledged events: when
	who      map[string]bool
	replies  int // 2xx
	items    int64
	refusals int           // 503 and 429
	lost     int           // requests without an answer
	loose    map[page]span // of events without an id
	failures []string      // answers that no sender may get
}

// span bounds the count of a page whose events have no id.
type span struct{ acknowledged, sent int64 }

func newRecord() *record {
	return &record{pages: map[page]totals{}, ids: map[string]time.Time{}, who: map[string]bool{}, loose: map[page]span{}}
}

// acknowledge notes the events of a request that was answered with a promise. Events that were promised before count once.
func (r *record) acknowledge(events []event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replies++
	r.items += int64(len(events))
	for _, e := range events {
		if e.id != "" {
			if _, again := r.ids[e.id]; again {
				continue
			}
			r.ids[e.id] = time.Now()
		}
		t := r.pages[e.page]
		r.pages[e.page] = totals{t.rows + 1, t.n + e.n}
		if e.who != "" {
			r.who[e.who] = true
		}
	}
}

// noteLoose notes an event without an id; it is sent once.
func (r *record) noteLoose(p page, acknowledged bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.loose[p]
	s.sent++
	if acknowledged {
		s.acknowledged++
	}
	r.loose[p] = s
}

func (r *record) note(outcome outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch outcome {
	case noAnswer:
		r.lost++
	case refused:
		r.refusals++
	}
}

// fail notes an answer that no sender may get.
func (r *record) fail(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.failures) < 20 {
		r.failures = append(r.failures, what)
	}
}

func (r *record) counts() (replies, refusals, lost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.replies, r.refusals, r.lost
}

// acknowledgements is the number of requests that were answered with a promise.
func (r *record) acknowledgements() int {
	replies, _, _ := r.counts()
	return replies
}

// wanted is a copy of what must be counted.
func (r *record) wanted() map[page]totals {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.pages)
}
