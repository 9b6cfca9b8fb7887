package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"
)

var testID = ulid.MustParse("01ARZ3NDEKTSV4RRFFQ69G5FAV")

// testSegment is a sealed file of three frames, and where each of its frames ends.
func testSegment() (file []byte, ends []int) {
	file = header{id: testID, kind: KindLive, format: 3, node: "node-1", created: time.UnixMilli(1e12)}.appendTo(nil)
	t := newTally(testID)
	for i, payload := range []string{"first", "the second", "3"} {
		start := len(file)
		file = appendFrame(file, []byte(payload), i+1)
		t.stamp(file[start:])
		ends = append(ends, len(file))
	}
	return t.appendFooter(file), ends
}

func TestHeaderRoundTrip(t *testing.T) {
	want := header{id: testID, kind: KindRetried, format: 9, node: "0123456789abcdef0123456789abcdef", created: time.UnixMilli(1722222222333).UTC()}
	got, err := decodeHeader(want.appendTo(nil))
	if err != nil || got != want {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestNewerLayoutIsRefused(t *testing.T) {
	b := header{id: testID}.appendTo(nil)
	b[8]++
	b = binary.LittleEndian.AppendUint32(b[:headerCRCAt], checksum(b[:headerCRCAt]))
	if _, err := decodeHeader(b); !errors.Is(err, ErrVersion) || errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v", err)
	}
}

// A prefix of a segment holds the whole frames before the cut and nothing else, and never passes for a sealed segment.
func TestEveryPrefix(t *testing.T) {
	file, ends := testSegment()
	for n := range file {
		s, err := scan(file[:n], testID)
		if n < headerSize {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("prefix of %d: %v", n, err)
			}
			continue
		}
		want := 0
		for _, end := range ends {
			if end <= n {
				want++
			}
		}
		good := headerSize
		if want > 0 {
			good = ends[want-1]
		}
		if err != nil || s.sealed || int(s.tally.frames) != want || s.torn != int64(n-good) {
			t.Errorf("prefix of %d: %+v, %v, want %d frames", n, s, err, want)
		}
		if _, err := newSegment(file[:n], testID, StateSealed, false); !errors.Is(err, ErrCorrupt) {
			t.Errorf("prefix of %d passes as sealed: %v", n, err)
		}
	}
	if s, err := scan(file, testID); err != nil || !s.sealed || s.tally.frames != 3 || s.tally.rows != 6 {
		t.Errorf("whole file: %+v, %v", s, err)
	}
}

func TestEveryBitFlip(t *testing.T) {
	file, _ := testSegment()
	for bit := range len(file) * 8 {
		b := bytes.Clone(file)
		b[bit/8] ^= 1 << (bit % 8)
		if _, err := newSegment(b, testID, StateSealed, false); !errors.Is(err, ErrCorrupt) {
			t.Errorf("flip of bit %d in byte %d: %v", bit%8, bit/8, err)
		}
	}
}

// Frames count only where they were written: not in another segment, not at another index, not twice.
func TestMisplacedFrames(t *testing.T) {
	file, ends := testSegment()
	other := ulid.MustParse("01ARZ3NDEKTSV4RRFFQ69G5FAW")
	head := header{id: other}.appendTo(nil)
	swapped := append(bytes.Clone(file[:headerSize]), file[ends[0]:ends[1]]...)
	repeated := append(bytes.Clone(file[:ends[0]]), file[headerSize:ends[0]]...)
	tests := []struct {
		name string
		b    []byte
		id   ulid.ULID
		want uint32
	}{
		{"another segment", append(head, file[headerSize:ends[0]]...), other, 0},
		{"another index", swapped, testID, 0},
		{"twice", repeated, testID, 1},
	}
	for _, tt := range tests {
		if s, err := scan(tt.b, tt.id); err != nil || s.tally.frames != tt.want {
			t.Errorf("%s: %d frames, %v, want %d", tt.name, s.tally.frames, err, tt.want)
		}
	}
	if _, err := scan(file, other); !errors.Is(err, ErrCorrupt) {
		t.Errorf("file under another name: %v", err)
	}
}

func TestIDsRise(t *testing.T) {
	var ids idSource
	now := time.UnixMilli(1e12)
	clock := []time.Time{now, now, now.Add(-time.Hour), now.Add(time.Millisecond), now}
	var last ulid.ULID
	for i, at := range clock {
		id := ids.next(at)
		if id.Compare(last) <= 0 {
			t.Errorf("id %d is %s after %s", i, id, last)
		}
		last = id
	}
	var full ulid.ULID
	_ = full.SetTime(5)
	for i := range full[6:] {
		full[6+i] = 0xff
	}
	if got := successor(full); got.Time() != 6 || got.Compare(full) <= 0 {
		t.Errorf("successor(%s) = %s", full, got)
	}
}

func FuzzDecodeHeader(f *testing.F) {
	file, _ := testSegment()
	f.Add(file[:headerSize])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := decodeHeader(b)
		if err == nil && h.kind != 0 && !bytes.Equal(h.appendTo(nil)[16:headerNodeAt], b[16:headerNodeAt]) {
			t.Errorf("%+v does not encode to what it was decoded from", h)
		}
	})
}

// FuzzScan takes what follows a valid header. With fix set the checksums are mended first, so that the walk gets past them.
func FuzzScan(f *testing.F) {
	file, ends := testSegment()
	f.Add(file[headerSize:], false)
	f.Add(file[headerSize:ends[1]+5], false)
	f.Add(bytes.Repeat([]byte{0xff}, footerSize), true)
	f.Add(make([]byte, 100), true)
	f.Fuzz(func(t *testing.T, tail []byte, fix bool) {
		b := append(bytes.Clone(file[:headerSize]), tail...)
		if fix {
			mend(b)
		}
		s, err := scan(b, testID)
		if err != nil {
			t.Fatalf("valid header: %v", err)
		}
		good := s.tally.size
		if s.sealed {
			good += footerSize
		}
		if good+s.torn != int64(len(b)) {
			t.Fatalf("%d good and %d torn bytes of %d", good, s.torn, len(b))
		}
		seg, err := newSegment(b, testID, StateOpen, true)
		if err != nil {
			t.Fatal(err)
		}
		again := bytes.Clone(b[:headerSize])
		tally := newTally(testID)
		for frame := range seg.Frames {
			start := len(again)
			again = appendFrame(again, []byte(frame.Payload), frame.Rows)
			tally.stamp(again[start:])
		}
		if diff := cmp.Diff(again, b[:s.tally.size]); diff != "" || tally != s.tally {
			t.Fatalf("frames do not encode to what they were decoded from: %s", diff)
		}
	})
}

// mend sets the checksums of what looks like frames.
func mend(b []byte) {
	t := newTally(testID)
	for int(t.size)+frameHeadSize < len(b) {
		rest := b[t.size:]
		if n := int64(binary.LittleEndian.Uint32(rest)) + frameHeadSize; n > int64(len(rest)) {
			return
		}
		t.stamp(rest[:frameSize(rest)])
	}
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }
