package journal

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
)

// Journal is an open journal directory. All methods may be called from any goroutine.
type Journal struct {
	opts      Options
	lock      *dirLock
	ids       *idSource
	cat       *catalogue
	gather    *gathering
	metrics   *metrics
	committer *committer
	temps     atomic.Uint64
	closed    atomic.Bool

	closing  sync.Once
	closeErr error
}

// Open locks the directory, which it makes if need be, and brings what a crash left in open/ to sealed/: torn tails are
// cut at the last whole frame, logged and counted. If the disk does not allow that now, Open succeeds all the same, and
// Append is refused until it does. ErrLocked says that another process has the directory, ErrVersion that a newer
// program has written there.
func Open(opts Options) (*Journal, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	if err := opts.FS.MkdirAll(opts.Dir); err != nil {
		return nil, fmt.Errorf("make journal: %w", err)
	}
	lock, err := lockDir(opts.Dir)
	if err != nil {
		return nil, err
	}
	j, err := open(opts, lock)
	if err != nil {
		return nil, errors.Join(err, lock.release())
	}
	return j, nil
}

func open(opts Options, lock *dirLock) (*Journal, error) {
	j := &Journal{opts: opts, lock: lock, ids: &idSource{}, cat: newCatalogue()}
	if err := j.nameNode(); err != nil {
		return nil, err
	}
	j.metrics = newMetrics(j.cat)
	j.gather = newGathering(j.opts, j.cat)
	j.committer = &committer{
		opts: j.opts, log: j.opts.Log, ids: j.ids, cat: j.cat, gather: j.gather, metrics: j.metrics,
		sealed:   make(chan struct{}, 1),
		requests: make(chan chan error),
		stop:     make(chan struct{}),
		stopped:  make(chan struct{}),
	}
	if err := j.committer.load(); err != nil {
		return nil, err
	}
	if err := j.committer.settle(); errors.Is(err, ErrVersion) {
		return nil, err
	}
	if err := j.metrics.register(opts.Metrics); err != nil {
		return nil, err
	}
	j.announceBacklog()
	go j.committer.run()
	return j, nil
}

// nameNode reads or makes the directory's node id.
func (j *Journal) nameNode() error {
	path := filepath.Join(j.opts.Dir, "node")
	b, err := readAll(j.opts.FS, path)
	node := strings.TrimSpace(string(b))
	switch {
	case err == nil && j.opts.Node != "" && node != j.opts.Node && node != "":
		return fmt.Errorf("%w: it is %q's, this is %q", ErrNode, node, j.opts.Node)
	case err == nil && node != "" && len(node) <= maxNode:
		j.opts.Node = node
		return nil
	case err != nil && !notExist(err):
		return fmt.Errorf("read node id: %w", err)
	}
	if j.opts.Node == "" {
		j.opts.Node = ulid.Make().String()
	}
	if err := writeWhole(j.opts.FS, path, path+tempSuffix, []byte(j.opts.Node+"\n")); err != nil {
		return fmt.Errorf("write node id: %w", err)
	}
	return nil
}

func (j *Journal) announceBacklog() {
	if len(j.cat.list(StateSealed)) > 0 {
		notify(j.committer.sealed)
	}
}

// Node returns the node id that segments are written with.
func (j *Journal) Node() string { return j.opts.Node }

// Dir is the directory, as given in Options.
func (j *Journal) Dir() string { return j.opts.Dir }

// NewID returns an id for Write or for a batch: greater than every id made or found here before.
func (j *Journal) NewID() ulid.ULID { return j.ids.next(time.Now()) }

// Sealed returns a channel that holds a token when sealed/ got a segment since the last token was taken, or had one
// at Open. It is never closed.
func (j *Journal) Sealed() <-chan struct{} { return j.committer.sealed }

// Seal seals the open segment, if there is one, with all that was appended before. An error means that it must be
// mended first, which goes on by itself; the acknowledged frames are safe.
func (j *Journal) Seal(ctx context.Context) error {
	reply := make(chan error, 1)
	select {
	case j.committer.requests <- reply:
	case <-j.committer.stopped:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-reply:
		if err != nil {
			return fmt.Errorf("seal segment: %w", refuse(err))
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Stats returns what the journal holds, from memory.
func (j *Journal) Stats() Stats { return j.cat.stats() }

// OldestOpen returns when the first payload of the open segment came, zero when there is none. Everything acknowledged
// before is sealed.
func (j *Journal) OldestOpen() time.Time { return j.cat.oldest(StateOpen) }

// Err returns why Append is refused at the moment, nil when it is not. Reaching the disk limit is not an error here:
// compare Stats.TotalBytes.
func (j *Journal) Err() error {
	j.gather.mu.Lock()
	defer j.gather.mu.Unlock()
	return j.gather.refusal
}

// Close refuses further appends and other changes, commits and seals what is there, stops the committer and releases the
// directory. An error means that the last segment stays in open/ for the next Open; the acknowledged frames are safe.
func (j *Journal) Close() error {
	j.closing.Do(func() {
		j.closed.Store(true)
		j.gather.refuse(ErrClosed)
		close(j.committer.stop)
		<-j.committer.stopped
		j.metrics.unregister()
		j.closeErr = errors.Join(j.committer.closeErr, j.lock.release())
	})
	return j.closeErr
}
