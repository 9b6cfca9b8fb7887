package journal

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
)

// Position is where a payload lies: the segment, and the index of the payload's first row in it.
type Position struct {
	Segment ulid.ULID
	Index   uint32
}

// Append stores payload, which holds the given number of rows, as one frame: all of it or nothing. It returns nil once
// fdatasync covers the frame. The payload is copied before Append returns, so the caller may reuse it then.
//
// ErrFull and ErrIO (see RetryAfter) and ErrClosed say that the frame is not stored; ErrTooLarge and ErrEmpty that it
// never can be. When ctx ends first its error is returned, and the frame may or may not become durable. A disk that
// hangs holds Append until ctx ends.
func (j *Journal) Append(ctx context.Context, payload []byte, rows int) (Position, error) {
	pos, err := j.append(ctx, payload, rows)
	if err != nil {
		j.metrics.refused(err)
	}
	return pos, err
}

func (j *Journal) append(ctx context.Context, payload []byte, rows int) (Position, error) {
	switch {
	case len(payload) == 0 || rows < 1:
		return Position{}, ErrEmpty
	case len(payload) > min(MaxPayload, j.gather.maxPending) || rows > MaxRows:
		return Position{}, ErrTooLarge
	}
	g, first, err := j.gather.join(ctx, payload, rows)
	if err != nil {
		return Position{}, err
	}
	select {
	case <-g.done:
	case <-ctx.Done():
		return Position{}, ctx.Err()
	}
	if g.err != nil {
		return Position{}, g.err
	}
	return Position{Segment: g.segment, Index: g.base + uint32(first)}, nil
}

// group is the payloads that one fdatasync makes durable.
type group struct {
	buf     []byte // frames whose checksums are not set yet
	rows    int
	frames  int
	started time.Time     // when the first payload joined
	done    chan struct{} // closed when the fate of all is known and the fields below are set

	err     error
	segment ulid.ULID
	base    uint32 // index of the group's first row
}

// gathering hands groups from the appenders to the committer. While one group is in the committer's hands the next
// gathers; together they stay below maxPending.
type gathering struct {
	maxPending  int
	maxRows     int   // of a group of several payloads, so that a segment's limits hold
	maxGroup    int64 // the same in bytes
	maxDisk     int64
	pendingWait time.Duration
	disk        *atomic.Int64 // bytes of all files
	wake        chan struct{} // one token when a group has begun

	mu       sync.Mutex
	group    *group        // nil when nobody has joined since the last take
	inFlight int           // bytes in the committer's hands
	spare    []byte        // a buffer to reuse
	room     chan struct{} // closed when joining may have become possible; nil when nobody waits for it
	refusal  error         // what Append answers at once while the journal is closed or its disk fails
}

func newGathering(opts Options, cat *catalogue) *gathering {
	return &gathering{
		maxPending:  opts.MaxPending,
		maxRows:     opts.SealRows,
		maxGroup:    opts.SealBytes,
		maxDisk:     opts.MaxBytes,
		pendingWait: opts.PendingWait,
		disk:        &cat.total,
		wake:        make(chan struct{}, 1),
	}
}

// spareLimit keeps one large request from holding its buffer for ever.
const spareLimit = 4 << 20

// join adds a payload to the gathering group and returns it with the payload's first row in it.
func (a *gathering) join(ctx context.Context, payload []byte, rows int) (g *group, first int, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	var patience *time.Timer
	for {
		g, first, room, err := a.tryJoin(payload, rows)
		if room == nil {
			return g, first, err
		}
		if patience == nil {
			patience = time.NewTimer(a.pendingWait)
			defer patience.Stop()
		}
		select {
		case <-room:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-patience.C:
			return nil, 0, &refusal{kind: ErrFull, cause: errPending, after: retryPending}
		}
	}
}

// tryJoin returns a channel to wait for, and nothing else, when the payload must wait for the next group.
func (a *gathering) tryJoin(payload []byte, rows int) (g *group, first int, room <-chan struct{}, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	size := frameHeadSize + len(payload)
	if a.refusal != nil {
		return nil, 0, nil, a.refusal
	}
	if a.disk.Load()+int64(a.pendingLocked()+size) > a.maxDisk {
		return nil, 0, nil, &refusal{kind: ErrFull, cause: errLimit, after: retryLimit}
	}
	if !a.fitsLocked(size, rows) {
		if a.room == nil {
			a.room = make(chan struct{})
		}
		return nil, 0, a.room, nil
	}
	if a.group == nil {
		a.group = &group{buf: a.spare, started: time.Now(), done: make(chan struct{})}
		a.spare = nil
		notify(a.wake)
	}
	g = a.group
	first = g.rows
	g.buf = appendFrame(g.buf, payload, rows)
	g.rows += rows
	g.frames++
	return g, first, nil, nil
}

func (a *gathering) pendingLocked() int {
	if a.group == nil {
		return a.inFlight
	}
	return a.inFlight + len(a.group.buf)
}

// fitsLocked lets a payload of any allowed size through when nothing else is pending.
func (a *gathering) fitsLocked(size, rows int) bool {
	pending := a.pendingLocked()
	if pending > 0 && pending+size > a.maxPending {
		return false
	}
	g := a.group
	return g == nil || g.rows+rows <= a.maxRows && int64(len(g.buf)+size) <= a.maxGroup
}

// lingerTurns bounds linger. Most of what is ready joins in the first few turns.
const lingerTurns = 16

// linger lets every goroutine that is ready to run go first, for as long as that brings payloads in. On a busy machine the group grows by
// all whose requests have arrived, and one write, one fdatasync and one burst of answers serve them; on an idle one nothing is waited for.
// No timer is involved: what a timer costs to fire is more than what a group of a slow moment saves.
func (a *gathering) linger() {
	before := a.frames()
	for range lingerTurns {
		runtime.Gosched()
		now := a.frames()
		if now == before {
			return
		}
		before = now
	}
}

// frames counts what the gathering group holds.
func (a *gathering) frames() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.group == nil {
		return 0
	}
	return a.group.frames
}

// take gives the committer what has gathered; nil when there is nothing.
func (a *gathering) take() *group {
	a.mu.Lock()
	defer a.mu.Unlock()
	g := a.group
	if g != nil {
		a.group = nil
		a.inFlight = len(g.buf)
		a.roomLocked()
	}
	return g
}

// finish wakes everyone in g, whose outcome is set.
func (a *gathering) finish(g *group) {
	a.mu.Lock()
	if cap(g.buf) <= spareLimit {
		a.spare = g.buf[:0]
	}
	a.inFlight = 0
	a.roomLocked()
	a.mu.Unlock()
	g.buf = nil
	close(g.done)
}

// refuse makes Append answer err at once; nil lets payloads in again. ErrClosed is for ever.
func (a *gathering) refuse(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refusal != ErrClosed {
		a.refusal = err
	}
	a.roomLocked()
}

func (a *gathering) roomLocked() {
	if a.room != nil {
		close(a.room)
		a.room = nil
	}
}
