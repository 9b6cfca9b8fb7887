package journal

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"unsafe"

	"github.com/oklog/ulid/v2"
)

// Segment is a segment with its payloads, all of them checked.
type Segment struct {
	Info
	// Payload is the file between header and footer: the frames with their heads, in one allocation that the payloads
	// of Frames share.
	Payload string
	// Torn counts the bytes after the last whole frame that were left out; only an open segment has any.
	Torn int64
}

// Frame is one payload as it was appended.
type Frame struct {
	Index   uint32 // of its first row in the segment
	Rows    int
	Payload string // shares Segment.Payload
}

// Frames yields the payloads in the order of their appending; use it with range.
func (s *Segment) Frames(yield func(Frame) bool) {
	rest, index := s.Payload, uint32(0)
	for len(rest) >= frameHeadSize {
		head := []byte(rest[:frameHeadSize])
		end := frameSize(head)
		rows := binary.LittleEndian.Uint32(head[4:])
		if !yield(Frame{Index: index, Rows: int(rows), Payload: rest[frameHeadSize:end]}) {
			return
		}
		index += rows
		rest = rest[end:]
	}
}

// scanned is what a walk over a segment's bytes found.
type scanned struct {
	header header
	tally  tally // of the whole frames
	sealed bool  // a valid footer ends the bytes
	torn   int64 // bytes after the last whole frame, the footer apart
	cause  error // why the walk stopped, if not at the end
}

// scan checks every byte of a segment. Its error says that the header is unusable, or is another segment's; anything
// wrong behind the header ends the walk there and is left to the caller to judge.
func scan(b []byte, id ulid.ULID) (scanned, error) {
	h, err := decodeHeader(b)
	if err != nil {
		return scanned{}, err
	}
	if h.id != id {
		return scanned{}, &CorruptError{Reason: "header of segment " + h.id.String()}
	}
	s := scanned{header: h, tally: newTally(id)}
	for s.tally.size < int64(len(b)) {
		rest := b[s.tally.size:]
		if len(rest) == footerSize && binary.LittleEndian.Uint32(rest) == footerMark {
			footer, err := decodeFooter(rest, id, int64(len(b)))
			if err == nil && footer == s.tally {
				s.sealed = true
				return s, nil
			}
		}
		if _, err := s.tally.next(rest); err != nil {
			s.cause, s.torn = err, int64(len(rest))
			return s, nil
		}
	}
	return s, nil
}

// newSegment turns the bytes of a file into a Segment; only with tornAllowed may they end in the middle.
func newSegment(b []byte, id ulid.ULID, state State, tornAllowed bool) (*Segment, error) {
	s, err := scan(b, id)
	if err != nil {
		return nil, err
	}
	if !s.sealed && !tornAllowed {
		if s.cause == nil {
			s.cause = s.tally.corrupt("no footer")
		}
		return nil, s.cause
	}
	payload := b[headerSize:s.tally.size]
	return &Segment{
		Info:    newInfo(s.header, s.tally, state, int64(len(b))),
		Payload: unsafe.String(unsafe.SliceData(payload), len(payload)), // nobody writes to b after this
		Torn:    s.torn,
	}, nil
}

func newInfo(h header, t tally, state State, size int64) Info {
	return Info{
		ID: h.id, State: state, Kind: h.kind, Format: h.format, Node: h.node,
		Rows: int(t.rows), Frames: int(t.frames), Bytes: size, Created: h.created,
	}
}

func readAt(f File, b []byte, at int64) error {
	n, err := f.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func readAll(fsys FS, path string) ([]byte, error) { return readPrefix(fsys, path, -1) }

// readPrefix reads the first limit bytes, which must be there; all when limit is below zero.
func readPrefix(fsys FS, path string, limit int64) ([]byte, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if limit < 0 {
		if limit, err = f.Size(); err != nil {
			return nil, err
		}
	}
	b := make([]byte, limit)
	if err := readAt(f, b, 0); err != nil {
		return nil, err
	}
	return b, nil
}

func notExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
