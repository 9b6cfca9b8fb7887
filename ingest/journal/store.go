package journal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"
)

// List returns the segments in a state by rising id, which is the order of their beginning. It makes no file calls.
func (j *Journal) List(s State) ([]Info, error) {
	if s >= numStates {
		return nil, ErrState
	}
	return j.cat.list(s), nil
}

// Contains reports whether the segment is in this journal and not yet delivered: open or sealed.
func (j *Journal) Contains(id ulid.ULID) bool {
	info, ok := j.cat.find(id)
	return ok && (info.State == StateOpen || info.State == StateSealed)
}

// Read returns a segment with every checksum verified. It fails with ErrNotFound when the segment is not in that state
// and with a *CorruptError when its bytes are not what was written. The open segment cannot be read.
func (j *Journal) Read(s State, id ulid.ULID) (*Segment, error) {
	if s == StateOpen || s >= numStates {
		return nil, ErrState
	}
	if _, ok := j.cat.get(s, id); !ok {
		return nil, ErrNotFound
	}
	seg, err := readSegment(j.opts.FS, segmentPath(j.opts.Dir, s, id), id, s)
	if notExist(err) { // moved while we looked
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read segment %s: %w", id, err)
	}
	return seg, nil
}

// Write stores a whole segment under an id of the caller's (see NewID) and returns once it is durable. Writing the same
// frames under the same id again is no error, so that a step cut short can be repeated; ErrExists says that the id has other
// frames or lies in another state. The segment is visible whole or not at all. The disk limit does not apply.
func (j *Journal) Write(s State, kind Kind, id ulid.ULID, frames iter.Seq2[[]byte, int]) (Info, error) {
	if err := j.changeable(s); err != nil {
		return Info{}, err
	}
	h := header{id: id, kind: kind, format: j.opts.Format, node: j.opts.Node, created: time.Now()}
	if old, ok := j.cat.find(id); ok {
		return j.writtenBefore(old, s, h, frames)
	}
	path := segmentPath(j.opts.Dir, s, id)
	var t tally
	err := writeTemp(j.opts.FS, path, j.tempName(path), func(w io.Writer) (err error) {
		t, err = encodeSegment(w, h, frames)
		return err
	})
	if err != nil {
		return Info{}, j.fileError(opCopy, "write segment", err)
	}
	j.ids.raise(id)
	info := newInfo(h, t, s, t.size+footerSize)
	info.Created = info.Created.Truncate(time.Millisecond).UTC()
	j.cat.put(info)
	j.announce(s)
	return info, nil
}

func (j *Journal) writtenBefore(old Info, s State, h header, frames iter.Seq2[[]byte, int]) (Info, error) {
	if old.State != s || old.Damaged {
		return old, fmt.Errorf("%w: %s in %s", ErrExists, old.ID, old.State)
	}
	t, err := encodeSegment(io.Discard, h, frames)
	if err != nil {
		return old, err
	}
	seg, err := j.Read(s, old.ID)
	if err != nil {
		return old, err
	}
	was := newTally(old.ID)
	for rest := []byte(seg.Payload); len(rest) > 0; {
		n := frameSize(rest)
		was.add(rest[:n])
		rest = rest[n:]
	}
	if was != t {
		return old, fmt.Errorf("%w: %s with other frames", ErrExists, old.ID)
	}
	return old, nil
}

// encodeSegment writes a complete segment to w.
func encodeSegment(w io.Writer, h header, frames iter.Seq2[[]byte, int]) (tally, error) {
	buffered := bufio.NewWriterSize(w, 256<<10)
	t := newTally(h.id)
	buf := h.appendTo(nil)
	for payload, rows := range frames {
		if len(payload) == 0 || rows < 1 {
			return t, ErrEmpty
		}
		if len(payload) > MaxPayload || rows > MaxRows || t.rows+uint64(rows) > maxSealRows {
			return t, ErrTooLarge
		}
		buffered.Write(buf) // its error stays with it until Flush
		buf = appendFrame(buf[:0], payload, rows)
		t.stamp(buf)
	}
	if t.frames == 0 {
		return t, ErrEmpty
	}
	buffered.Write(buf)
	buffered.Write(t.appendFooter(nil))
	return t, buffered.Flush()
}

// Move changes a segment's state, durably. Moving a segment that is already there is no error; ErrNotFound says that it
// is in neither state. Open segments are not moved, and nothing is moved to StateOpen.
func (j *Journal) Move(id ulid.ULID, from, to State) error {
	if err := j.changeable(from, to); err != nil {
		return err
	}
	info, ok := j.cat.get(from, id)
	if !ok {
		if _, ok := j.cat.get(to, id); !ok {
			return ErrNotFound
		}
		return j.syncStates(to, from) // the last attempt may have failed here
	}
	if from == to {
		return nil
	}
	if err := j.opts.FS.Rename(segmentPath(j.opts.Dir, from, id), segmentPath(j.opts.Dir, to, id)); err != nil {
		return j.fileError(opRename, "move segment", err)
	}
	info.State = to
	j.cat.move(info, from)
	if err := j.syncStates(to, from); err != nil {
		return err
	}
	j.announce(to)
	return nil
}

// Remove deletes a segment, durably. Removing one that is gone is no error.
func (j *Journal) Remove(s State, id ulid.ULID) error {
	if err := j.changeable(s); err != nil {
		return err
	}
	if err := j.opts.FS.Remove(segmentPath(j.opts.Dir, s, id)); err != nil && !notExist(err) {
		return j.fileError(opRemove, "remove segment", err)
	}
	j.cat.drop(s, id)
	return j.syncStates(s)
}

// changeable says whether segments of these states may be changed from outside the committer.
func (j *Journal) changeable(states ...State) error {
	for _, s := range states {
		if s == StateOpen || s >= numStates {
			return ErrState
		}
	}
	if j.closed.Load() {
		return ErrClosed // the directory may be another process's by now
	}
	return nil
}

func (j *Journal) syncStates(states ...State) error {
	for _, s := range states {
		if err := j.opts.FS.SyncDir(stateDir(j.opts.Dir, s)); err != nil {
			return j.fileError(opSyncDir, "sync journal folder", err)
		}
	}
	return nil
}

func (j *Journal) announce(s State) {
	if s == StateSealed {
		notify(j.committer.sealed)
	}
}

// fileError counts and wraps the failure of a file call as ErrFull or ErrIO.
func (j *Journal) fileError(op, what string, err error) error {
	if errors.Is(err, ErrEmpty) || errors.Is(err, ErrTooLarge) {
		return err // the caller's fault
	}
	j.metrics.failed(op)
	return fmt.Errorf("%s: %w", what, refuse(err))
}

// tempName returns a name that no other call uses at the same time.
func (j *Journal) tempName(path string) string {
	return path + "." + strconv.FormatUint(j.temps.Add(1), 36) + tempSuffix
}
