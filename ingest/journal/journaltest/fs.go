package journaltest

import (
	"errors"
	"slices"
	"sync"

	"github.com/pagetally/pagetally/ingest/journal"
)

// Op names a file call.
type Op string

// The file calls.
const (
	MkdirAll   Op = "mkdir"
	Create     Op = "create"
	OpenAppend Op = "open to append"
	Open       Op = "open"
	Rename     Op = "rename"
	Remove     Op = "remove"
	ReadDir    Op = "read folder"
	SyncDir    Op = "sync folder"
	Write      Op = "write"
	ReadAt     Op = "read"
	Datasync   Op = "sync"
	Truncate   Op = "truncate"
	Size       Op = "size"
	Close      Op = "close"
)

// Call is one file call.
type Call struct {
	N    int // from 1, over all operations
	Op   Op
	Path string // of Rename the new one
	Err  error  // how it ended; set by Calls only
}

// ErrPowerOff is the error of every call after a power cut.
var ErrPowerOff = errors.New("power is off")

// FS is a journal.FS with faults. Its methods may be called from any goroutine.
type FS struct {
	journal.FS
	// SkipSync leaves out the real syncs, which makes thousands of runs affordable; they can fail all the same.
	SkipSync bool

	mu     sync.Mutex
	calls  []Call
	faults []*fault
	before func(Call) error
	after  func(Call)
	off    bool
	synced map[string]int64 // size of files at their last sync
}

// New returns a file system without faults on top of inner; journal.OSFS when that is nil.
func New(inner journal.FS) *FS {
	if inner == nil {
		inner = journal.OSFS{}
	}
	return &FS{FS: inner, synced: make(map[string]int64)}
}

type fault struct {
	op        Op // "" is any
	countdown int
	err       error
	lasting   bool
	short     bool
	powerOff  bool
	afterward bool // the power goes once the call is done
}

// Fail makes the n-th call of op from now on fail with err, without being made. An empty op counts all calls.
func (f *FS) Fail(op Op, n int, err error) { f.add(&fault{op: op, countdown: n, err: err}) }

// FailFrom is Fail for the n-th and all later calls, until Heal.
func (f *FS) FailFrom(op Op, n int, err error) {
	f.add(&fault{op: op, countdown: n, err: err, lasting: true})
}

// Short is Fail, but when the call is a Write half of the bytes are written first.
func (f *FS) Short(op Op, n int, err error) {
	f.add(&fault{op: op, countdown: n, err: err, short: true})
}

// PowerOff makes the n-th call of op from now on and every call after it fail with ErrPowerOff without being made: the
// directory stays as a process leaves it that is killed there. With done the n-th call is still made.
func (f *FS) PowerOff(op Op, n int, done bool) {
	f.add(&fault{op: op, countdown: n, err: ErrPowerOff, powerOff: true, afterward: done})
}

func (f *FS) add(x *fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, x)
}

// Heal forgets all faults and turns the power on.
func (f *FS) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults, f.off = nil, false
}

// Before sets a hook that runs before each call, outside any lock, so it may block. An error fails the call.
func (f *FS) Before(hook func(Call) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = hook
}

// After sets a hook that runs after each call that was made.
func (f *FS) After(hook func(Call)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after = hook
}

// Calls returns the calls so far, with their results.
func (f *FS) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// DropUnsynced cuts every file back to its size at its last sync, as a power failure may. Faults do not apply.
func (f *FS) DropUnsynced() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for path, synced := range f.synced {
		file, err := f.FS.OpenAppend(path)
		if err != nil {
			continue // removed since
		}
		size, err := file.Size()
		if err == nil && size > synced {
			err = file.Truncate(synced)
		}
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// enter counts a call and decides its fate: an error fails it; short asks for half a write before that; after takes
// its result once it is made.
func (f *FS) enter(op Op, path string) (short bool, after func(error), err error) {
	f.mu.Lock()
	call := Call{N: len(f.calls) + 1, Op: op, Path: path}
	f.calls = append(f.calls, call)
	before, hook, off := f.before, f.after, f.off
	hit := f.hitLocked(op)
	f.mu.Unlock()

	ended := func(err error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.calls[call.N-1].Err = err
	}
	switch {
	case off:
		err = ErrPowerOff
	case before != nil:
		err = before(call)
	}
	if err == nil && hit != nil && !hit.afterward {
		short, err = hit.short, hit.err
	}
	if err != nil {
		ended(err)
		return short, nil, err
	}
	return false, func(err error) {
		ended(err)
		if hook != nil {
			hook(call)
		}
		if hit != nil {
			f.mu.Lock()
			f.off = true
			f.mu.Unlock()
		}
	}, nil
}

// hitLocked counts the faults down and returns the one whose turn it is.
func (f *FS) hitLocked(op Op) (hit *fault) {
	for _, x := range f.faults {
		if x.op != "" && x.op != op {
			continue
		}
		x.countdown--
		if x.countdown == 0 || x.countdown < 0 && x.lasting {
			hit = x
		}
	}
	if hit != nil && hit.powerOff && !hit.afterward {
		f.off = true
	}
	return hit
}

// call makes a call whose only result is an error.
func (f *FS) call(op Op, path string, do func() error) error {
	_, after, err := f.enter(op, path)
	if err != nil {
		return err
	}
	err = do()
	after(err)
	return err
}
