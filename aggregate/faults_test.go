package aggregate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pagetally/pagetally/schema/embedded/embeddedtest"
)

// faulty is an engine whose renames and writes can be struck one at a time.
type faulty struct {
	*rig
	control string
}

// newFaulty starts an engine with the shim preloaded. The race detector needs a C compiler too, so that one is there.
func newFaulty(t *testing.T) *faulty {
	t.Helper()
	dir := t.TempDir()
	shim, control := filepath.Join(dir, "faultshim.so"), filepath.Join(dir, "fault")
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-O1", "-o", shim, "testdata/faultshim.c").CombinedOutput(); err != nil {
		t.Fatalf("build the fault shim: %v\n%s", err, out)
	}
	server := embeddedtest.Start(t, embeddedtest.Options{Env: []string{"LD_PRELOAD=" + shim, "PAGETALLY_FAULT=" + control}})
	return &faulty{rig: newRigOn(t, server), control: control}
}

// arm makes the next call on a path with the given parts the one that is struck.
func (f *faulty) arm(call, folder, file, action string) {
	f.t.Helper()
	// Written aside and renamed, so that the shim never reads half of it.
	if err := os.WriteFile(f.control+".new", fmt.Appendf(nil, "%s %s %s %s", call, folder, file, action), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(f.control+".new", f.control); err != nil {
		f.t.Fatal(err)
	}
}

func (f *faulty) requireStruck() {
	f.t.Helper()
	if _, err := os.Stat(f.control); !errors.Is(err, fs.ErrNotExist) {
		f.t.Fatalf("the fault did not happen: %v", err)
	}
}

// folder is the name of the folder that holds a table's parts.
func (f *faulty) folder(table string) string {
	f.t.Helper()
	var id string
	f.scan(`SELECT toString(uuid) FROM system.tables WHERE database = currentDatabase() AND name = '`+table+`'`, &id)
	return id
}

// feed journals a mixture of events, with and without ids, over two months, as one segment.
func (r *rig) feed(round int) (rows int64) {
	lastMonth := time.Now().AddDate(0, -1, 0).UnixMilli()
	for i := range 15 {
		e := r.event()
		r.count(e)
		e = r.event()
		e.TS = lastMonth
		e.EventID = fmt.Sprintf("%d-%d", round, i)
		r.count(e)
		r.append(e)
		rows += 3
	}
	r.seal()
	return rows
}

// struckTables are those that an INSERT makes parts in, in the order in which it does, with the ledger's before and after.
var struckTables = []string{"ledger", "events", "event_ids", "views", "visitors", "dimensions"}

// TestEngineFaults strikes each table's part where it becomes real: its rename fails, or the engine dies with the part not yet in
// place (its token is then logged already, so that every retry answers OK and stores nothing) or with the part just in place; and a
// write of the part fails.
func TestEngineFaults(t *testing.T) {
	f := newFaulty(t)
	accepted, round := int64(0), 0
	for _, fault := range []struct{ call, path, action string }{
		{"rename", "/tmp_insert_", "fail"},
		{"rename", "/tmp_insert_", "before"},
		{"rename", "/tmp_insert_", "after"},
		{"write", "/tmp_insert_", "fail"},
		{"write", "/tmp_insert_", "before"},
		{"write", "/deduplication_logs/", "fail"},
		{"write", "/deduplication_logs/", "before"},
		{"write", "/deduplication_logs/", "after"},
	} {
		for _, table := range struckTables {
			if table == "ledger" && fault.path == "/deduplication_logs/" {
				continue // it has none
			}
			round++
			accepted += f.feed(round)
			f.arm(fault.call, f.folder(table), fault.path, fault.action)
			f.deliver()
			f.requireStruck()
			f.requireExact()
			f.requireBalanced(accepted)
			if t.Failed() {
				t.Fatalf("after %s %s of %s%s", fault.action, fault.call, table, fault.path)
			}
		}
	}
	var filled uint64
	f.scan(`SELECT countIf(outcome = 'filled') FROM ledger FINAL`, &filled)
	if filled == 0 {
		t.Error("no batch had to be filled in: the faults never left a token without its rows")
	}
}

// A server that starts while a group is being inserted may answer OK before all views take part: such an INSERT is compared.
func TestServerStartsWithinAFirstTry(t *testing.T) {
	server := embeddedtest.Start(t, embeddedtest.Options{})
	r := newRigOn(t, server)
	events := r.some(50, nil)
	r.batch(true, events...)
	r.seal()
	restarted := false
	r.deliver(func(c *Config) {
		c.Step = func(step string) {
			if step != "delivery: after the intent" || restarted {
				return
			}
			restarted = true
			if err := server.Kill(); err != nil {
				t.Error(err)
			}
			if err := server.Restart(); err != nil {
				t.Error(err)
			}
		}
	})
	r.requireExact()
	var outcome string
	r.scan("SELECT outcome FROM ledger FINAL WHERE state = 'stored'", &outcome)
	if !restarted || outcome != outcomeChecked {
		t.Errorf("restarted %v, outcome %q, want %q", restarted, outcome, outcomeChecked)
	}
}
