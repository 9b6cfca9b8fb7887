package journal

import (
	"time"

	"github.com/oklog/ulid/v2"
)

// openSegment is the file the committer appends to. Its tally counts acknowledged frames only.
type openSegment struct {
	header
	began  time.Time // header.created with its monotonic reading, so that a jump of the clock does not change the age
	tally  tally
	file   File
	linked bool // the folder was synced since the file was made
}

// createSegment returns a segment together with an error when the file exists but is not usable.
func createSegment(opts Options, id ulid.ULID, began time.Time) (*openSegment, error) {
	file, err := opts.FS.Create(segmentPath(opts.Dir, StateOpen, id))
	if err != nil {
		return nil, err
	}
	s := &openSegment{
		header: header{id: id, kind: KindLive, format: opts.Format, node: opts.Node, created: began},
		began:  began,
		tally:  newTally(id),
		file:   file,
	}
	_, err = file.Write(s.header.appendTo(nil))
	return s, err
}

// write makes b durable behind what is there; op names the call that failed.
func (s *openSegment) write(opts Options, b []byte) (op string, err error) {
	if _, err := s.file.Write(b); err != nil {
		return opWrite, err
	}
	if err := s.file.Datasync(); err != nil {
		return opSync, err
	}
	if s.linked {
		return "", nil
	}
	if err := opts.FS.SyncDir(stateDir(opts.Dir, StateOpen)); err != nil {
		return opSyncDir, err
	}
	s.linked = true
	return "", nil
}

// finish writes the footer. The error of closing says nothing: the bytes are durable by then.
func (s *openSegment) finish() (op string, err error) {
	if _, err := s.file.Write(s.tally.appendFooter(nil)); err != nil {
		return opWrite, err
	}
	if err := s.file.Datasync(); err != nil {
		return opSync, err
	}
	_ = s.file.Close()
	return "", nil
}

func (s *openSegment) info() Info {
	info := newInfo(s.header, s.tally, StateOpen, s.tally.size)
	info.Created = s.began.Truncate(time.Millisecond)
	return info
}

// overflowCause says which limit g would break, so that the segment is sealed before it.
func (s *openSegment) overflowCause(g *group, opts Options) string {
	switch {
	case s.tally.rows+uint64(g.rows) > uint64(opts.SealRows):
		return sealRows
	case s.tally.size-headerSize+int64(len(g.buf)) > opts.SealBytes:
		return sealBytes
	}
	return ""
}

// fullCause says which limit is reached.
func (s *openSegment) fullCause(opts Options) string {
	switch {
	case s.tally.rows >= uint64(opts.SealRows):
		return sealRows
	case s.tally.size-headerSize >= opts.SealBytes:
		return sealBytes
	}
	return ""
}
