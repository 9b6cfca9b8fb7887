package journal

import (
	"fmt"
	"log/slog"
	"time"
)

// Why a segment was sealed, as a label.
const (
	sealAge     = "age"
	sealRows    = "rows"
	sealBytes   = "bytes"
	sealRequest = "request"
	sealClose   = "close"
	sealRoom    = "room"   // the disk is almost full
	sealMended  = "mended" // after a failure or a crash
)

// committer is the one goroutine that writes the open segment. All fields are its own unless they say otherwise.
type committer struct {
	opts    Options
	log     *slog.Logger
	ids     *idSource  // shared
	cat     *catalogue // shared
	gather  *gathering // shared
	metrics *metrics   // shared

	sealed   chan struct{}   // one token when sealed/ got a segment
	requests chan chan error // of Seal
	stop     chan struct{}   // closed by Close
	stopped  chan struct{}   // closed at the end of run
	closeErr error           // set before stopped is closed

	segment   *openSegment // nil between a seal and the next payload
	leftovers []*leftover  // what else is in open/; settled before anything new is written
	outage    outage
}

// run ends after the last group is committed and the last segment sealed.
func (c *committer) run() {
	defer close(c.stopped)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if at, ok := c.due(); ok {
			timer.Reset(time.Until(at))
		} else {
			timer.Stop()
		}
		select {
		case <-c.gather.wake:
			c.gather.linger()
			c.commit()
		case <-timer.C:
		case reply := <-c.requests:
			c.commit()
			reply <- c.seal(sealRequest)
		case <-c.stop:
			c.commit()
			c.closeErr = c.seal(sealClose) // what cannot be sealed now is left to the next Open
			return
		}
		c.tick()
	}
}

// due returns when the committer has something to do unasked.
func (c *committer) due() (at time.Time, ok bool) {
	switch {
	case c.outage.on():
		return c.outage.retryAt, true
	case c.segment != nil:
		return c.segment.began.Add(c.opts.SealAge), true
	}
	return at, false
}

func (c *committer) tick() {
	at, ok := c.due()
	switch {
	case !ok || time.Now().Before(at):
	case c.outage.on():
		c.retry()
	default:
		_ = c.seal(sealAge) // a failure is logged and has become an outage
	}
}

// commit makes what has gathered durable and tells everyone in it.
func (c *committer) commit() {
	g := c.gather.take()
	if g == nil {
		return
	}
	start := time.Now()
	err := c.store(g)
	if err != nil {
		g.err = refuse(err)
	} else {
		c.metrics.committed(g, time.Since(start))
	}
	c.gather.finish(g)
	if err != nil {
		c.failed(err) // after the waiters are told: it may copy a whole segment
		return
	}
	c.succeeded()
	if cause := c.segment.fullCause(c.opts); cause != "" {
		_ = c.seal(cause)
	}
}

// store writes g and syncs it. After an error nothing of g is in the journal.
func (c *committer) store(g *group) error {
	if c.outage.on() {
		return c.outage.cause
	}
	if err := c.checkRoom(len(g.buf)); err != nil {
		_ = c.seal(sealRoom) // its delivery makes room
		return err
	}
	if c.segment != nil {
		if cause := c.segment.overflowCause(g, c.opts); cause != "" {
			if err := c.seal(cause); err != nil {
				return err
			}
		}
	}
	if c.segment == nil {
		if err := c.create(g.started); err != nil {
			return err
		}
	}
	s := c.segment
	next := s.tally
	next.stamp(g.buf)
	if op, err := s.write(c.opts, g.buf); err != nil {
		c.abandon(op, err)
		return err
	}
	g.segment, g.base = s.id, uint32(s.tally.rows)
	s.tally = next
	c.cat.put(s.info())
	return nil
}

// checkRoom refuses n bytes that would take what Options.KeepFree keeps. A disk that does not say how full it is shows it by ENOSPC.
func (c *committer) checkRoom(n int) error {
	if c.opts.KeepFree == 0 {
		return nil
	}
	left, size, err := c.opts.FS.Room(c.opts.Dir)
	if err != nil || left-int64(n) >= min(c.opts.KeepFree, size/keepFreeShare) {
		return nil
	}
	return fmt.Errorf("%w: %d bytes left on the disk", errRoom, left)
}

const keepFreeShare = 16

// create begins a segment. It becomes durable with its first group.
func (c *committer) create(began time.Time) error {
	s, err := createSegment(c.opts, c.ids.next(began), began)
	if s == nil {
		c.metrics.failed(opCreate)
		return err
	}
	c.segment = s
	c.cat.put(s.info())
	if err != nil {
		c.abandon(opWrite, err)
	}
	return err
}

// seal completes the open segment and moves it to sealed/. After an error it waits in open/ to be settled.
func (c *committer) seal(cause string) error {
	s := c.segment
	if s == nil {
		return c.settle()
	}
	if op, err := s.finish(); err != nil {
		c.abandon(op, err)
	} else {
		c.segment = nil
		c.leftovers = append(c.leftovers, &leftover{
			header: s.header, tally: s.tally, cause: cause, scanned: true, complete: true,
		})
	}
	return c.settle()
}
