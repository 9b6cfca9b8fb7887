package journal

import (
	"math/rand/v2"
	"time"
)

// outage is the time in which Append is refused because the disk does not take new segments.
//
// One failure does not make one: the file is given up and the next group gets a new one. A leftover that cannot be
// settled does, and so does a second failure in a row. It ends when leftovers are settled; the wait before the next
// attempt grows until a group is stored, so that a disk which takes a header and no more is not tried at full speed.
type outage struct {
	cause    error     // nil while appends are taken
	began    time.Time // zero when all is well
	retryAt  time.Time
	wait     time.Duration
	failures int // of groups, in a row
}

const (
	firstWait = 100 * time.Millisecond
	lastWait  = 5 * time.Second
)

func (o *outage) on() bool { return o.cause != nil }

// begin refuses appends until the next attempt, whose turn comes later each time.
func (c *committer) begin(cause error) {
	o := &c.outage
	if o.began.IsZero() {
		o.began = time.Now()
		c.log.Error("journal takes no events", "err", cause)
	}
	o.cause = cause
	o.wait = min(max(firstWait, 2*o.wait), lastWait)
	o.retryAt = time.Now().Add(o.wait/2 + rand.N(o.wait/2))
	refusal := refuse(cause)
	c.gather.refuse(refusal)
	if g := c.gather.take(); g != nil { // joined before the refusal was known
		g.err = refusal
		c.gather.finish(g)
	}
}

// retry ends the refusal if the leftovers can be settled.
func (c *committer) retry() {
	if c.settle() == nil {
		c.outage.cause = nil
		c.gather.refuse(nil)
	}
}

// failed follows a group that was not stored.
func (c *committer) failed(err error) {
	c.outage.failures++
	if c.outage.on() || c.settle() != nil {
		return
	}
	if c.outage.failures > 1 {
		c.begin(err)
	}
}

// succeeded follows a group that was stored.
func (c *committer) succeeded() {
	if began := c.outage.began; !began.IsZero() {
		c.log.Info("journal takes events again", "after", time.Since(began).Round(time.Millisecond))
	}
	c.outage = outage{}
}
