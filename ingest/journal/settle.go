package journal

import (
	"time"
)

// leftover is a segment in open/ that is no longer written: it is complete and only has to move, or a failure or a
// crash cut it short. Settling brings its acknowledged frames to sealed/ and is repeated until it succeeds.
type leftover struct {
	header
	tally   tally  // of the frames to keep
	cause   string // of sealing
	scanned bool   // header and tally are known; false after a crash
	// complete is set when the file is durable with its footer.
	complete bool
	// inPlace is set when the file ran out of space while being written. Its pages are trustworthy, since no fdatasync
	// has failed, and cutting it off where it is needs no room, which a copy would.
	inPlace bool
	// suspect is set once fdatasync failed: then only a copy is good enough.
	suspect  bool
	readings int  // that failed
	gone     bool // nothing is left in open/
}

// maxReadings is how often a leftover that cannot be read is tried before it is put before an operator: the medium is
// damaged, and accepting new events must not wait for it.
const maxReadings = 5

// abandon gives up the open segment after op failed on it. The refused bytes are cut off at once, so that they do not
// turn up again should the process die before the segment is settled; if that fails too, settling does it.
func (c *committer) abandon(op string, cause error) {
	s := c.segment
	c.segment = nil
	_ = s.file.Truncate(s.tally.size)
	_ = s.file.Close()
	c.metrics.failed(op)
	c.log.Warn("journal segment cut off", "segment", s.id.String(), "op", op, "rows", s.tally.rows, "err", cause)
	c.leftovers = append(c.leftovers, &leftover{
		header: s.header, tally: s.tally, cause: sealMended, scanned: true,
		inPlace: op == opWrite && noSpace(cause),
		suspect: op == opSync,
	})
}

// settle settles all leftovers, the oldest first; at the first that resists the outage begins or goes on.
func (c *committer) settle() error {
	for len(c.leftovers) > 0 {
		if err := c.settleOne(c.leftovers[0]); err != nil {
			c.begin(err)
			return err
		}
		c.leftovers = c.leftovers[1:]
	}
	c.leftovers = nil
	return nil
}

func (c *committer) settleOne(l *leftover) error {
	if !l.scanned {
		if err := c.examine(l); err != nil || l.gone {
			return err
		}
	}
	if l.tally.frames == 0 {
		return c.discard(l)
	}
	if !l.complete {
		if err := c.complete(l); err != nil || l.gone {
			return err
		}
	}
	return c.publish(l)
}

// discard removes a segment in which nothing was acknowledged.
func (c *committer) discard(l *leftover) error {
	fsys := c.opts.FS
	if err := fsys.Remove(segmentPath(c.opts.Dir, StateOpen, l.id)); err != nil && !notExist(err) {
		c.metrics.failed(opRemove)
		return err
	}
	c.cat.drop(StateOpen, l.id)
	return c.syncDirs(StateOpen)
}

// complete makes the file end, durably, in a footer behind the frames to keep.
func (c *committer) complete(l *leftover) error {
	if !l.inPlace {
		err := c.copyOver(l)
		if err == nil || !noSpace(err) || l.suspect {
			l.complete = err == nil
			return err
		}
		l.inPlace = true
	}
	err := c.cutOff(l)
	l.complete = err == nil
	return err
}

// cutOff completes the file where it is.
func (c *committer) cutOff(l *leftover) error {
	f, err := c.opts.FS.OpenAppend(segmentPath(c.opts.Dir, StateOpen, l.id))
	if err != nil {
		c.metrics.failed(opOpen)
		return err
	}
	defer f.Close()
	if err := f.Truncate(l.tally.size); err != nil {
		c.metrics.failed(opTruncate)
		return err
	}
	if _, err := f.Write(l.tally.appendFooter(nil)); err != nil {
		c.metrics.failed(opWrite)
		return err
	}
	if err := f.Datasync(); err != nil {
		c.metrics.failed(opSync)
		l.inPlace, l.suspect = false, true
		return err
	}
	return nil
}

// copyOver replaces the file by a complete copy in one step, so that the segment exists once at every moment.
func (c *committer) copyOver(l *leftover) error {
	path := segmentPath(c.opts.Dir, StateOpen, l.id)
	b, err := readPrefix(c.opts.FS, path, l.tally.size)
	if err != nil {
		return c.unread(l, err)
	}
	err = writeWhole(c.opts.FS, path, path+tempSuffix, l.tally.appendFooter(b))
	if err != nil {
		c.metrics.failed(opCopy)
	}
	return err
}

// unread judges a failed reading; nil means that the file is out of the way.
func (c *committer) unread(l *leftover, err error) error {
	c.metrics.failed(opRead)
	if notExist(err) {
		c.log.Error("journal segment vanished", "segment", l.id.String(), "rows", l.tally.rows)
		c.cat.drop(StateOpen, l.id)
		l.gone = true
		return nil
	}
	if l.readings++; l.readings < maxReadings {
		return err
	}
	c.log.Error("journal segment unreadable, moved to quarantine", "segment", l.id.String(), "err", err)
	return c.quarantine(l)
}

// quarantine moves an unusable file as it is out of the way.
func (c *committer) quarantine(l *leftover) error {
	from, to := segmentPath(c.opts.Dir, StateOpen, l.id), segmentPath(c.opts.Dir, StateQuarantined, l.id)
	if err := c.opts.FS.Rename(from, to); err != nil {
		c.metrics.failed(opRename)
		return err
	}
	l.gone = true
	_ = c.syncDirs(StateQuarantined, StateOpen) // the next Open would only do it again
	info, _ := c.cat.get(StateOpen, l.id)
	c.cat.move(Info{ID: l.id, State: StateQuarantined, Bytes: info.Bytes, Damaged: true}, StateOpen)
	return nil
}

// publish moves a complete segment to sealed/. Should a folder fail to sync, the segment may be back in open/ after a
// power failure, complete, and is published again by the next Open: the rename is what counts here.
func (c *committer) publish(l *leftover) error {
	from, to := segmentPath(c.opts.Dir, StateOpen, l.id), segmentPath(c.opts.Dir, StateSealed, l.id)
	if err := c.opts.FS.Rename(from, to); err != nil {
		c.metrics.failed(opRename)
		return err
	}
	_ = c.syncDirs(StateSealed, StateOpen)
	info := newInfo(l.header, l.tally, StateSealed, l.tally.size+footerSize)
	info.Created = l.created.Truncate(time.Millisecond).UTC()
	c.cat.move(info, StateOpen)
	c.metrics.seals.WithLabelValues(l.cause).Inc()
	notify(c.sealed)
	return nil
}

// syncDirs syncs the folders of all states and returns the first error.
func (c *committer) syncDirs(states ...State) (first error) {
	for _, s := range states {
		if err := c.opts.FS.SyncDir(stateDir(c.opts.Dir, s)); err != nil {
			c.metrics.failed(opSyncDir)
			if first == nil {
				first = err
			}
		}
	}
	return first
}

// notify puts a token into ch unless one is there.
func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
