package aggregate

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
)

// eventually waits for a condition that delivery brings about.
func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			r.t.Fatalf("%s did not come about", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (r *rig) list(state journal.State) []journal.Info {
	r.t.Helper()
	infos, err := r.journal.List(state)
	if err != nil {
		r.t.Fatal(err)
	}
	return infos
}

// poison makes the tables refuse events of the path /poison.
func (r *rig) poison() {
	r.exec(`ALTER TABLE events ADD CONSTRAINT poison CHECK path != '/poison'`)
}

func poisonous(e schema.Event) schema.Event {
	e.Path = "/poison"
	return e
}

func TestRefusedRowsAreQuarantinedAlone(t *testing.T) {
	r := newRig(t)
	r.poison()
	for i := range 64 {
		if i == 10 || i == 11 || i == 63 {
			r.append(poisonous(r.event()))
			continue
		}
		r.count(r.event())
	}
	r.seal()
	r.deliver()
	r.requireExact()
	r.requireBalanced(64)
	quarantined := r.list(journal.StateQuarantined)
	if len(quarantined) != 1 || quarantined[0].Rows != 3 {
		t.Fatalf("quarantined: %+v, want one segment of 3 rows", quarantined)
	}
	note, err := ReadQuarantine(r.dir, quarantined[0].ID)
	if err != nil || len(note.Reasons) != 3 || !strings.Contains(note.Reasons[0], "poison") {
		t.Errorf("note %+v, %v, want three reasons naming the constraint", note, err)
	}
}

func TestQuarantinedRowsAreRetriedOrDropped(t *testing.T) {
	r := newRig(t)
	r.poison()
	r.count(r.event())
	kept, dropped := poisonous(r.event()), poisonous(r.event())
	kept.EventID, dropped.EventID = "kept", "dropped"
	r.append(kept)
	r.seal()
	r.deliver()
	r.count(r.event())
	r.append(dropped)
	r.seal()
	r.deliver()
	segments := r.list(journal.StateQuarantined)
	if len(segments) != 2 {
		t.Fatalf("%d quarantined segments, want 2", len(segments))
	}
	// A retry by the client waits: whether its event is counted is not known yet.
	r.append(kept, dropped)
	r.seal()
	r.deliver()
	if parked := r.list(journal.StateParked); len(parked) != 1 || parked[0].Rows != 2 {
		t.Fatalf("parked: %+v, want two rows", parked)
	}
	r.requireExact()
	r.requireBalanced(6)

	r.exec(`ALTER TABLE events DROP CONSTRAINT poison`)
	for i, action := range []Action{ActionRetry, ActionDrop} {
		if err := Request(r.dir, segments[i].ID, action); err != nil {
			t.Fatal(err)
		}
	}
	_, stop := r.start(func(c *Config) { c.ParkedRetry = 50 * time.Millisecond })
	r.eventually("the end of quarantine and parking", func() bool {
		return len(r.list(journal.StateQuarantined))+len(r.list(journal.StateParked))+len(r.list(journal.StateSealed)) == 0
	})
	stop()
	// The first came from quarantine, and its copy is a duplicate; of the second the copy took over the freed id.
	r.want["/poison"] = 2
	r.requireExact()
	r.requireBalanced(6)
	var duplicates, forgotten int64
	r.scan(`SELECT sum(duplicate), sum(forgotten) FROM ledger FINAL WHERE state = 'stored'`, &duplicates, &forgotten)
	if duplicates != 1 || forgotten != 1 {
		t.Errorf("%d duplicates and %d forgotten, want 1 and 1", duplicates, forgotten)
	}
}

func TestQuarantineOutlivesARestart(t *testing.T) {
	r := newRig(t)
	r.poison()
	bad := poisonous(r.event())
	bad.EventID = "bad"
	r.append(bad)
	r.count(r.event())
	r.seal()
	r.deliver()
	r.close()
	r.open(journalOptions())
	r.append(bad)
	r.seal()
	r.deliver()
	if parked := r.list(journal.StateParked); len(parked) != 1 {
		t.Errorf("a copy of a quarantined event was not parked after a restart: %+v", parked)
	}
	var ids uint64
	if r.scan(`SELECT count() FROM event_ids`, &ids); ids != 0 {
		t.Errorf("%d ids of uncounted events are in event_ids", ids)
	}
	r.requireExact()
}

// TestBrokenViewHoldsEventsBack breaks a view so that every row is refused: nothing may be quarantined, and all counts once mended.
func TestBrokenViewHoldsEventsBack(t *testing.T) {
	for _, c := range []struct{ name, breaks, mends string }{
		{
			"a column renamed", // the server says which: wait for an operator
			`ALTER TABLE visitors RENAME COLUMN n TO m`, `ALTER TABLE visitors RENAME COLUMN m TO n`,
		},
		{
			"every row refused", // no other row is taken that would prove the table
			`ALTER TABLE views ADD CONSTRAINT never CHECK n > 1000`, `ALTER TABLE views DROP CONSTRAINT never`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.exec(c.breaks)
			accepted := r.feed(1)
			d, stop := r.start()
			defer stop()
			r.eventually("a complaint", func() bool { return d.Ready() != nil && d.Ready().Error() != "starting" })
			accepted += r.feed(2)
			time.Sleep(500 * time.Millisecond)
			if quarantined := r.list(journal.StateQuarantined); len(quarantined) != 0 {
				t.Fatalf("quarantined while the view is broken: %+v", quarantined)
			}
			r.exec(c.mends)
			r.eventually("delivery", func() bool { return r.journal.Stats().SealedSegments == 0 })
			r.requireExact()
			r.requireBalanced(accepted)
		})
	}
}

func TestTooManyPartsIsWaitedOut(t *testing.T) {
	r := newRig(t)
	r.exec(`SYSTEM STOP MERGES views`)
	r.exec(`ALTER TABLE views MODIFY SETTING parts_to_throw_insert = 1, parts_to_delay_insert = 1, max_delay_to_insert = 1`)
	accepted := r.feed(1)
	r.deliver()
	d, stop := r.start()
	defer stop()
	accepted += r.feed(2)
	r.eventually("a complaint", func() bool { return d.Ready() != nil && strings.Contains(d.Ready().Error(), "252") })
	r.exec(`ALTER TABLE views RESET SETTING parts_to_throw_insert, parts_to_delay_insert, max_delay_to_insert`)
	r.exec(`SYSTEM START MERGES views`)
	r.eventually("delivery", func() bool { return r.journal.Stats().SealedSegments == 0 })
	r.requireExact()
	r.requireBalanced(accepted)
}

// TestReadOnlyTableIsWaitedOut: what a table does not take for a while is no fault of the rows.
func TestReadOnlyTableIsWaitedOut(t *testing.T) {
	r := newRig(t)
	r.exec(`ALTER TABLE views MODIFY SETTING table_readonly = 1`)
	d, stop := r.start()
	defer stop()
	accepted := r.feed(2)
	r.eventually("a complaint", func() bool { return d.Ready() != nil && strings.Contains(d.Ready().Error(), "configuration") })
	if held := r.list(journal.StateQuarantined); len(held) != 0 {
		t.Errorf("quarantined: %+v, want nothing", held)
	}
	r.exec(`ALTER TABLE views MODIFY SETTING table_readonly = 0`)
	r.eventually("delivery", func() bool { return r.journal.Stats().SealedSegments == 0 })
	r.requireExact()
	r.requireBalanced(accepted)
}

// TestServerThatForgets loses whole parts, as a server without fsync may when its machine fails: kept segments bring them back.
func TestServerThatForgets(t *testing.T) {
	r := newRig(t)
	keep := func(c *Config) { c.Keep = time.Hour }
	accepted := r.feed(1)
	r.deliver(keep)
	accepted += r.feed(2)
	r.deliver(keep)
	if kept := r.list(journal.StateKept); len(kept) != 2 {
		t.Fatalf("%d segments kept, want 2", len(kept))
	}
	for _, table := range []string{"events", "views", "dimensions"} {
		r.exec(fmt.Sprintf(`ALTER TABLE %s DROP PARTITION %s`, table, time.Now().UTC().Format("200601")))
	}
	// What a restart of the server triggers, a start of the node does as well: it cannot know what happened meanwhile.
	d, stop := r.start(keep)
	r.eventually("a look at what was kept", func() bool { return d.Ready() == nil })
	stop()
	r.requireExact()
	r.requireBalanced(accepted)
	r.deliver(func(c *Config) { c.Keep = time.Nanosecond })
	r.eventually("expiry", func() bool { return true })
}
