package aggregate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
)

// batch journals the events as one request does.
func (r *rig) batch(counts bool, events ...schema.Event) {
	r.t.Helper()
	var payload []byte
	for i := range events {
		events[i].PathKey = events[i].Path
		payload = events[i].AppendTo(payload)
		if counts {
			r.want[events[i].Path] += events[i].N
		}
	}
	if _, err := r.journal.Append(r.t.Context(), payload, len(events)); err != nil {
		r.t.Fatalf("append: %v", err)
	}
}

// some makes n events.
func (r *rig) some(n int, change func(*schema.Event)) []schema.Event {
	events := make([]schema.Event, n)
	for i := range events {
		events[i] = r.event()
		if change != nil {
			change(&events[i])
		}
	}
	return events
}

// counted is a metric with a label of a value.
func counted(t *testing.T, metrics *prometheus.Registry, name, label string) (n float64) {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && l.GetValue() == label {
					n += m.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}

// gauged is a gauge without labels.
func gauged(t *testing.T, metrics *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// TestRefusedRowsHoldUpNobody: neither a batch of nothing but refused rows nor one among a thousand keeps the others waiting.
func TestRefusedRowsHoldUpNobody(t *testing.T) {
	for _, c := range []struct {
		name      string
		bad, good []int // sizes of the batches, bad ones first
	}{
		{"a batch of refused rows first", []int{10}, []int{330, 330, 330}},
		{"one in the middle of a thousand", nil, []int{499, -1, 500}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.poison()
			// A batch that passes shows that it is not the table.
			good, bad := 1, 0
			r.batch(true, r.event())
			for _, n := range c.bad {
				r.seal()
				r.batch(false, r.some(n, func(e *schema.Event) { *e = poisonous(*e) })...)
				r.seal()
				bad += n
			}
			for _, n := range c.good {
				if n < 0 {
					r.batch(false, poisonous(r.event()))
					bad++
					continue
				}
				r.batch(true, r.some(n, nil)...)
				good += n
			}
			r.seal()
			metrics := prometheus.NewRegistry()
			began := time.Now()
			r.deliver(func(c *Config) { c.Metrics = metrics })
			if took := time.Since(began); took > 45*time.Second {
				t.Errorf("delivered after %v", took)
			}
			r.requireExact()
			r.requireBalanced(int64(good + bad))
			if n := counted(t, metrics, "pagetally_delivered_rows_total", "quarantined"); n != float64(bad) {
				t.Errorf("%g rows are told as quarantined, want %d", n, bad)
			}
			if n := counted(t, metrics, "pagetally_delivered_rows_total", "stored"); n != float64(good) {
				t.Errorf("%g rows are told as stored, want %d", n, good)
			}
			reasons := 0
			for _, info := range r.list(journal.StateQuarantined) {
				note, err := ReadQuarantine(r.dir, info.ID)
				if err != nil {
					t.Fatal(err)
				}
				for _, reason := range note.Reasons {
					if strings.Contains(reason, "poison") {
						reasons++
					}
				}
			}
			if reasons != bad {
				t.Errorf("%d rows are set aside with the reason, want %d", reasons, bad)
			}
		})
	}
}

// TestWaitingEventIsOne refuses the same event again and again: it waits as one event, and is stored as one.
func TestWaitingEventIsOne(t *testing.T) {
	for _, c := range []struct{ name, refuses, accepts, result string }{
		{
			"too many parts", `ALTER TABLE views MODIFY SETTING parts_to_throw_insert = 1, parts_to_delay_insert = 1, max_delay_to_insert = 1`,
			`ALTER TABLE views RESET SETTING parts_to_throw_insert, parts_to_delay_insert, max_delay_to_insert`, "retry",
		},
		{"a column renamed", `ALTER TABLE visitors RENAME COLUMN n TO m`, `ALTER TABLE visitors RENAME COLUMN m TO n`, "configuration"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.exec(`SYSTEM STOP MERGES views`)
			r.batch(true, r.event())
			r.seal()
			r.deliver() // a part is there
			r.exec(c.refuses)
			metrics := prometheus.NewRegistry()
			d, stop := r.start(func(c *Config) { c.Metrics = metrics })
			defer stop()
			r.batch(true, r.event())
			r.seal()
			r.eventually("three refusals", func() bool {
				if n := d.Pending(); n != 1 {
					t.Fatalf("%d events wait, want 1", n)
				}
				return counted(t, metrics, "pagetally_inserts_total", c.result) >= 3
			})
			if n := counted(t, metrics, "pagetally_delivered_rows_total", "stored"); n != 0 {
				t.Errorf("%g rows are told as stored while they are refused", n)
			}
			r.exec(c.accepts)
			r.exec(`SYSTEM START MERGES views`)
			r.eventually("delivery", func() bool { return r.journal.Stats().SealedSegments == 0 })
			r.requireExact()
			r.requireBalanced(2)
			var rows uint64
			if r.scan(`SELECT count() FROM events`, &rows); rows != 2 || d.Pending() != 0 {
				t.Errorf("%d rows and %d waiting, want 2 and 0", rows, d.Pending())
			}
		})
	}
}

// TestRepeatedIDsCountOnceWithoutMerges: what is a duplicate is known before it is stored, not at a merge some time later.
func TestRepeatedIDsCountOnceWithoutMerges(t *testing.T) {
	r := newRig(t)
	for _, target := range schema.Targets() {
		r.exec("SYSTEM STOP MERGES " + target.Table)
	}
	serial := 0
	events := r.some(100, func(e *schema.Event) {
		e.EventID = fmt.Sprint(serial)
		serial++
	})
	r.batch(true, events...)
	r.seal()
	r.deliver()
	r.batch(false, events...)
	r.seal()
	r.deliver()
	r.requireExact()
	for _, target := range schema.Targets() {
		r.exec("SYSTEM START MERGES " + target.Table)
		r.exec("OPTIMIZE TABLE " + target.Table + " FINAL")
	}
	r.requireExact()
	r.requireBalanced(200)
}

// An id that comes again within its window counts once, however long the second event waited in the journal of a node that started anew.
func TestOldBacklogFindsItsIDs(t *testing.T) {
	r := newRig(t)
	first, again, other := r.event(), r.event(), r.event()
	for i, e := range []*schema.Event{&first, &again, &other} {
		at := time.Now().Add(-60*time.Hour + time.Duration(i)*time.Hour).UnixMilli()
		e.TS, e.ReceivedAt, e.EventID, e.Path, e.PathKey = at, at, "same", "/old", "/old"
	}
	other.EventID = "other"
	r.count(first)
	r.seal()
	r.deliver()
	r.append(again)
	r.count(other)
	r.seal()
	r.deliver() // by another Delivery, which knows nothing
	r.requireExact()
	r.requireBalanced(3)
}
