package journal_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/ingest/journal/journaltest"
)

// script drives a journal through all that changes files and notes what it was promised.
type script struct {
	t       *testing.T
	opts    journal.Options
	j       *journal.Journal
	acked   map[string]bool // payloads that must be there once
	refused map[string]bool // payloads that must not be there
	unsure  map[string]bool // payloads whose removal failed: there once or not at all
	files   map[string]bool // acknowledged files of decisions/
	next    int
}

func newScript(t *testing.T, fsys journal.FS) *script {
	return &script{
		t:     t,
		opts:  journal.Options{Dir: t.TempDir(), FS: fsys, SealAge: time.Hour, SealRows: 6},
		acked: map[string]bool{}, refused: map[string]bool{}, unsure: map[string]bool{}, files: map[string]bool{},
	}
}

// run ends early when the journal does not open.
func (s *script) run() {
	j, err := journal.Open(s.opts)
	if err != nil {
		return
	}
	s.j = j
	defer j.Close()
	s.append(1, 2)
	s.seal()
	s.append(3)
	s.append(2, 4) // rolls over by rows
	s.decide("a")
	s.seal()
	s.each(journal.StateSealed, 1, func(info journal.Info) {
		s.write(journal.StateParked, journal.KindParked)
		_ = j.Move(info.ID, journal.StateSealed, journal.StateKept)
	})
	s.write(journal.StateSealed, journal.KindRetried)
	s.append(1, 1)
	s.each(journal.StateKept, 1, s.remove)
	s.decide("b")
	if err := j.RemoveFile(journal.FolderDecisions, "a"); err != nil || s.files["a"] {
		delete(s.files, "a")
	}
	s.append(5)
}

// append appends payloads of the given row counts, and after a failure waits until the journal takes events again.
func (s *script) append(rows ...int) {
	for _, n := range rows {
		s.next++
		payload := fmt.Sprintf("payload %d", s.next)
		_, err := s.j.Append(s.t.Context(), []byte(payload), n)
		if err == nil {
			s.acked[payload] = true
			continue
		}
		s.refused[payload] = true
		if !errors.Is(err, journal.ErrIO) && !errors.Is(err, journal.ErrFull) {
			s.t.Errorf("Append: %v", err)
		}
		s.settle()
	}
}

func (s *script) settle() {
	for range 400 {
		err := s.j.Err()
		if err == nil || errors.Is(err, journaltest.ErrPowerOff) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	s.t.Errorf("still refused: %v", s.j.Err())
}

func (s *script) seal() {
	if s.j.Seal(s.t.Context()) != nil {
		s.settle()
	}
}

func (s *script) each(state journal.State, limit int, do func(journal.Info)) {
	infos, err := s.j.List(state)
	if err != nil {
		s.t.Error(err)
	}
	for _, info := range infos[:min(limit, len(infos))] {
		do(info)
	}
}

func (s *script) write(state journal.State, kind journal.Kind) {
	s.next++
	payload := fmt.Sprintf("payload %d", s.next)
	_, err := s.j.Write(state, kind, s.j.NewID(), frames(payload))
	if err != nil {
		s.unsure[payload] = true
	} else {
		s.acked[payload] = true
	}
}

func (s *script) remove(info journal.Info) {
	seg, err := s.j.Read(info.State, info.ID)
	if err != nil {
		return
	}
	err = s.j.Remove(info.State, info.ID)
	for f := range seg.Frames {
		delete(s.acked, f.Payload)
		if err != nil {
			s.unsure[f.Payload] = true
		} else {
			s.refused[f.Payload] = true
		}
	}
}

func (s *script) decide(name string) {
	if s.j.WriteFile(journal.FolderDecisions, name, []byte(name)) == nil {
		s.files[name] = true
	}
}

// check reopens the directory on a healthy disk and compares it with the promises. With refusedMayStay a payload that was not
// acknowledged may be there, but only once and whole.
func (s *script) check(refusedMayStay bool) {
	healthy := journaltest.New(nil)
	healthy.SkipSync = true
	s.opts.FS = healthy
	j := open(s.t, s.opts)
	defer j.Close()
	got := map[string]int{}
	for _, state := range []journal.State{journal.StateSealed, journal.StateKept, journal.StateParked} {
		for _, f := range readAll(s.t, j, state) {
			got[f.Payload]++
		}
	}
	if infos, _ := j.List(journal.StateQuarantined); len(infos) > 0 {
		s.t.Errorf("quarantined: %+v", infos)
	}
	for payload := range s.acked {
		if got[payload] != 1 {
			s.t.Errorf("acknowledged %q is there %d times", payload, got[payload])
		}
		delete(got, payload)
	}
	for payload, n := range got {
		if n != 1 || !(s.unsure[payload] || s.refused[payload] && refusedMayStay) {
			s.t.Errorf("%q is there %d times", payload, n)
		}
	}
	names, _ := j.ListFiles(journal.FolderDecisions)
	for name := range s.files {
		b, err := j.ReadFile(journal.FolderDecisions, name)
		if err != nil || string(b) != name || !slices.Contains(names, name) {
			s.t.Errorf("ReadFile(%s) = %q, %v", name, b, err)
		}
	}
}

func TestFaultAtEveryCall(t *testing.T) {
	healthy := journaltest.New(nil)
	healthy.SkipSync = true
	s := newScript(t, healthy)
	s.run()
	calls := healthy.Calls()
	if len(s.refused) != 2 { // those of the removed segment
		t.Fatalf("healthy run refused %v", slices.Collect(maps.Keys(s.refused)))
	}
	s.check(false)

	faults := []struct {
		name   string
		op     journaltest.Op // at which it differs from the others; any when empty
		inject func(f *journaltest.FS, n int)
		crash  bool // so the last group's fate is open
	}{
		{"EIO", "", func(f *journaltest.FS, n int) { f.Fail("", n, syscall.EIO) }, false},
		{"ENOSPC", "", func(f *journaltest.FS, n int) { f.Fail("", n, syscall.ENOSPC) }, false},
		{"short", journaltest.Write, func(f *journaltest.FS, n int) { f.Short("", n, syscall.ENOSPC) }, false},
		{"twice", "", func(f *journaltest.FS, n int) {
			f.Short("", n, syscall.EIO)
			f.Fail("", n+1, syscall.EIO)
		}, true}, // cutting off the refused bytes may be what fails
		{"off", "", func(f *journaltest.FS, n int) { f.PowerOff("", n, false) }, true},
		{"off short", journaltest.Write, func(f *journaltest.FS, n int) {
			f.Short("", n, syscall.EIO)
			f.PowerOff("", n+1, false)
		}, true},
	}
	for _, fault := range faults {
		for _, call := range calls {
			if fault.op != "" && fault.op != call.Op {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d %s", fault.name, call.N, call.Op), func(t *testing.T) {
				t.Parallel()
				fsys := journaltest.New(nil)
				fsys.SkipSync = true
				fault.inject(fsys, call.N)
				surviveFault(t, fsys, fault.crash, call.N%2 == 0)
			})
		}
	}
}

// surviveFault runs in a bubble, so that waiting for the end of an outage takes no time.
func surviveFault(t *testing.T, fsys *journaltest.FS, crash, dropUnsynced bool) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, fsys)
		s.run()
		if crash && dropUnsynced {
			if err := fsys.DropUnsynced(); err != nil {
				t.Fatal(err)
			}
		}
		s.check(crash)
		noSyncAfterFailure(t, fsys)
	})
}

// A disk that stays full refuses with a hint, keeps what it acknowledged, and takes events again once there is room.
func TestNoSpaceThenRecovery(t *testing.T) {
	for _, op := range []journaltest.Op{journaltest.Write, journaltest.Create, journaltest.Datasync, journaltest.Rename} {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			fsys := journaltest.New(nil)
			s := newScript(t, fsys)
			s.j = open(t, s.opts)
			s.append(1, 1)
			fsys.FailFrom(op, 1, syscall.ENOSPC)
			_ = s.j.Seal(t.Context())
			refusals := 0
			for deadline := time.Now().Add(300 * time.Millisecond); time.Now().Before(deadline); {
				_, err := s.j.Append(t.Context(), []byte("refused"), 1)
				if !errors.Is(err, journal.ErrFull) || !errors.Is(err, syscall.ENOSPC) || journal.RetryAfter(err) <= 0 {
					t.Fatalf("Append on a full disk = %v, retry after %v", err, journal.RetryAfter(err))
				}
				refusals++
				time.Sleep(5 * time.Millisecond)
			}
			if refusals < 10 {
				t.Errorf("only %d refusals in time", refusals)
			}
			fsys.Heal()
			deadline := time.Now().Add(10 * time.Second)
			for {
				if _, err := s.j.Append(t.Context(), []byte("recovered"), 1); err == nil {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("no recovery")
				}
				time.Sleep(5 * time.Millisecond)
			}
			s.acked["recovered"] = true
			if err := s.j.Close(); err != nil {
				t.Error(err)
			}
			s.check(false)
		})
	}
}

// noSyncAfterFailure holds the rule that a file whose sync failed is not synced again: the kernel reports the failure
// once and forgets the pages, so that a second sync would lie.
func noSyncAfterFailure(t *testing.T, fsys *journaltest.FS) (failures int) {
	t.Helper()
	failed := map[string]bool{}
	for _, call := range fsys.Calls() {
		switch {
		case call.Op == journaltest.Datasync && failed[call.Path]:
			t.Errorf("call %d syncs %s again", call.N, filepath.Base(call.Path))
		case call.Op == journaltest.Datasync && call.Err != nil && !errors.Is(call.Err, journaltest.ErrPowerOff):
			failed[call.Path] = true
			failures++
		case call.Err == nil && (call.Op == journaltest.Rename || call.Op == journaltest.Create):
			delete(failed, call.Path) // another file now
		}
	}
	return failures
}

// Failures that follow each other take the ways that a single fault does not reach.
func TestFailuresInARow(t *testing.T) {
	tests := []struct {
		name   string
		inject func(*journaltest.FS)
		syncs  int // that fail
	}{
		{"sync", func(f *journaltest.FS) { f.Fail(journaltest.Datasync, 1, syscall.EIO) }, 1},
		{"sync, no room for the copy", func(f *journaltest.FS) {
			f.Fail(journaltest.Datasync, 1, syscall.EIO)
			f.Fail(journaltest.Create, 1, syscall.ENOSPC)
			f.Fail(journaltest.Create, 2, syscall.ENOSPC)
		}, 1},
		{"no room, then sync", func(f *journaltest.FS) {
			f.Short(journaltest.Write, 1, syscall.ENOSPC)
			f.Fail(journaltest.Datasync, 1, syscall.EIO)
		}, 1},
		{"no room, not even for the footer", func(f *journaltest.FS) {
			f.Short(journaltest.Write, 1, syscall.ENOSPC)
			f.Fail(journaltest.Write, 2, syscall.ENOSPC)
		}, 0},
		{"write and cutting off", func(f *journaltest.FS) {
			f.Short(journaltest.Write, 1, syscall.EIO)
			f.Fail(journaltest.Truncate, 1, syscall.EIO)
		}, 0},
		{"sync, and reading back", func(f *journaltest.FS) {
			f.Fail(journaltest.Datasync, 1, syscall.EIO)
			f.Fail(journaltest.ReadAt, 1, syscall.EIO)
		}, 1},
		{"three groups", func(f *journaltest.FS) {
			f.Fail(journaltest.Write, 1, syscall.EIO)
			f.Fail(journaltest.Write, 4, syscall.EIO)
			f.Fail(journaltest.Write, 6, syscall.EIO)
		}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := journaltest.New(nil)
				s := newScript(t, fsys)
				s.j = open(t, s.opts)
				s.append(1)
				tt.inject(fsys)
				s.append(1)
				s.append(1)
				synctest.Wait()
				if got := s.j.Stats(); got.SealedRows != 1 {
					t.Errorf("%d rows are sealed, want the one from before the failure", got.SealedRows)
				}
				s.append(1, 1)
				if got := noSyncAfterFailure(t, fsys); got != tt.syncs {
					t.Errorf("%d syncs failed, want %d", got, tt.syncs)
				}
				if err := s.j.Close(); err != nil {
					t.Error(err)
				}
				s.check(false)
			})
		})
	}
}

// A refused payload, whole in the file though it is, does not come back when the process dies right after the refusal.
func TestRefusedStaysRefused(t *testing.T) {
	fsys := journaltest.New(nil)
	s := newScript(t, fsys)
	s.j = open(t, s.opts)
	s.append(1)
	fsys.Fail(journaltest.Datasync, 1, syscall.EIO)
	fsys.PowerOff(journaltest.Open, 1, false) // the first call of settling
	s.append(1)
	_ = s.j.Close()
	s.check(false)
}

// A segment that cannot be read after a crash goes to quarantine as it is, and does not stop new events.
func TestUnreadableLeftover(t *testing.T) {
	fsys := journaltest.New(nil)
	s := newScript(t, fsys)
	s.j = open(t, s.opts)
	s.append(1)
	fsys.PowerOff("", 1, false)
	_ = s.j.Close()
	fsys.Heal()
	fsys.FailFrom(journaltest.ReadAt, 2, syscall.EIO) // the node id is read first
	s.j = open(t, s.opts)
	deadline := time.Now().Add(30 * time.Second)
	for s.j.Err() != nil && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	s.append(1)
	infos, _ := s.j.List(journal.StateQuarantined)
	if len(infos) != 1 || !infos[0].Damaged {
		t.Errorf("quarantine holds %+v", infos)
	}
}
