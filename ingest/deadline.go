package ingest

import (
	"context"
	"sync/atomic"
	"time"
)

// appendWait bounds how long a request waits for a disk that hangs, give or take a second.
const appendWait = 15 * time.Second

// sharedDeadline hands out contexts that end after about appendWait. Requests that start within a second share one, since a
// timer for each would cost more than the rest of the request.
type sharedDeadline struct {
	current atomic.Pointer[deadline]
}

type deadline struct {
	ctx     context.Context
	expires time.Time // after this a new one is made
}

func (d *sharedDeadline) context(now time.Time) context.Context {
	if c := d.current.Load(); c != nil && now.Before(c.expires) {
		return c.ctx
	}
	// Two requests may both make one; each is released by its own timer.
	ctx, cancel := context.WithTimeout(context.Background(), appendWait)
	context.AfterFunc(ctx, cancel)
	d.current.Store(&deadline{ctx: ctx, expires: now.Add(time.Second)})
	return ctx
}
