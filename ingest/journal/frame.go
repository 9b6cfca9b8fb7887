package journal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/oklog/ulid/v2"
)

// A segment file is a header, frames, and, once it is sealed, a footer. Numbers are little-endian.
//
//	header, 80 bytes
//	 0        8         10       12     13         14         16      32        40      72         76    80
//	 +--------+---------+--------+------+----------+----------+-------+---------+-------+----------+-----+
//	 | magic  | version | format | kind | len node | reserved | ULID  | created | node  | reserved | crc |
//	 +--------+---------+--------+------+----------+----------+-------+---------+-------+----------+-----+
//	 created: Unix milliseconds; node: zero-padded; reserved: zero; crc: over bytes 0 to 76
//
//	frame, 12 bytes and the payload
//	 0     4      8     12
//	 +-----+------+-----+---------+
//	 | len | rows | crc | payload |   crc: over len, rows, payload, begun from crc(ULID) xor index of the first row
//	 +-----+------+-----+---------+
//
//	footer, 32 bytes, ends the file
//	 0            4        8      16      24        28    32
//	 +------------+--------+------+-------+---------+-----+
//	 | 0xFFFFFFFF | frames | rows | bytes | content | crc |
//	 +------------+--------+------+-------+---------+-----+
//	 bytes: of header and frames; content: crc over the crc fields of all frames; crc: over ULID and bytes 0 to 28
//
// All sums are CRC-32C. The ULID in them keeps bytes of another segment (a recycled block of the disk) from passing for
// this one's, the index keeps a frame from passing at another place, and the footer shows that nothing was cut off.
// The index is mixed into the start value because hashing four bytes more would allocate them for every frame.
const (
	magic         = "PTJOURN\n"
	layoutVersion = 1
	headerSize    = 80
	frameHeadSize = 12
	footerSize    = 32
	footerMark    = 0xFFFFFFFF
	maxNode       = 32
	headerNodeAt  = 40
	headerCRCAt   = 76
	frameCRCAt    = 8
)

// Limits of one payload; the reader believes no larger number.
const (
	MaxPayload = 64 << 20 // bytes
	MaxRows    = 1 << 24
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is what a segment says about itself before its first frame.
type header struct {
	id      ulid.ULID
	kind    Kind
	format  uint16
	node    string
	created time.Time
}

func (h header) appendTo(b []byte) []byte {
	start := len(b)
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint16(b, layoutVersion)
	b = binary.LittleEndian.AppendUint16(b, h.format)
	b = append(b, byte(h.kind), byte(len(h.node)), 0, 0)
	b = append(b, h.id[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.created.UnixMilli()))
	var node [maxNode + 4]byte
	copy(node[:maxNode], h.node)
	b = append(b, node[:]...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

func decodeHeader(b []byte) (header, error) {
	var h header
	if len(b) < headerSize {
		return h, &CorruptError{Reason: "short header"}
	}
	b = b[:headerSize]
	if string(b[:len(magic)]) != magic {
		return h, &CorruptError{Reason: "not a segment"}
	}
	if crc32.Checksum(b[:headerCRCAt], castagnoli) != binary.LittleEndian.Uint32(b[headerCRCAt:]) {
		return h, &CorruptError{Reason: "header checksum"}
	}
	if v := binary.LittleEndian.Uint16(b[8:]); v != layoutVersion {
		return h, fmt.Errorf("%w: layout %d, this program reads %d", ErrVersion, v, layoutVersion)
	}
	n := int(b[13])
	if n > maxNode {
		return h, &CorruptError{Reason: "node too long"}
	}
	h.format = binary.LittleEndian.Uint16(b[10:])
	h.kind = Kind(b[12])
	copy(h.id[:], b[16:32])
	h.created = time.UnixMilli(int64(binary.LittleEndian.Uint64(b[32:]))).UTC()
	h.node = string(b[headerNodeAt : headerNodeAt+n])
	return h, nil
}

// appendFrame appends a frame whose checksum is still zero: stampFrame sets it once segment and index are known.
func appendFrame(b, payload []byte, rows int) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, uint32(rows))
	b = append(b, 0, 0, 0, 0)
	return append(b, payload...)
}

// frameSize returns the length of the frame at the start of b, which appendFrame wrote.
func frameSize(b []byte) int { return frameHeadSize + int(binary.LittleEndian.Uint32(b)) }

// tally is what the footer says about the frames before it. It grows frame by frame, in the writer and in the reader.
type tally struct {
	seed    uint32 // crc(ULID)
	frames  uint32
	rows    uint64
	size    int64  // of header and frames, so where the next frame starts
	content uint32 // crc over the frames' crc fields
}

func newTally(id ulid.ULID) tally {
	return tally{seed: crc32.Checksum(id[:], castagnoli), size: headerSize}
}

// sum returns the checksum of the frame b as the next of the segment.
func (t *tally) sum(b []byte) uint32 {
	crc := crc32.Update(t.seed^uint32(t.rows), castagnoli, b[:frameCRCAt])
	return crc32.Update(crc, castagnoli, b[frameHeadSize:])
}

// add counts the frame b, whose checksum is set.
func (t *tally) add(b []byte) {
	t.content = crc32.Update(t.content, castagnoli, b[frameCRCAt:frameHeadSize])
	t.rows += uint64(binary.LittleEndian.Uint32(b[4:]))
	t.frames++
	t.size += int64(len(b))
}

// stamp sets the checksums of the whole frames in b, as the next ones of the segment, and counts them.
func (t *tally) stamp(b []byte) {
	for len(b) > 0 {
		frame := b[:frameSize(b)]
		binary.LittleEndian.PutUint32(frame[frameCRCAt:], t.sum(frame))
		t.add(frame)
		b = b[len(frame):]
	}
}

// next checks and counts the frame at the start of b and returns its length.
func (t *tally) next(b []byte) (int, error) {
	if len(b) < frameHeadSize {
		return 0, t.corrupt("short frame")
	}
	length, rows := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	if length == 0 || length > MaxPayload || rows == 0 || rows > MaxRows {
		return 0, t.corrupt("frame header")
	}
	size := frameHeadSize + int(length)
	if len(b) < size {
		return 0, t.corrupt("short frame")
	}
	if t.sum(b[:size]) != binary.LittleEndian.Uint32(b[frameCRCAt:]) {
		return 0, t.corrupt("frame checksum")
	}
	t.add(b[:size])
	return size, nil
}

func (t *tally) corrupt(reason string) error { return &CorruptError{Offset: t.size, Reason: reason} }

func (t *tally) appendFooter(b []byte) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint32(b, footerMark)
	b = binary.LittleEndian.AppendUint32(b, t.frames)
	b = binary.LittleEndian.AppendUint64(b, t.rows)
	b = binary.LittleEndian.AppendUint64(b, uint64(t.size))
	b = binary.LittleEndian.AppendUint32(b, t.content)
	return binary.LittleEndian.AppendUint32(b, crc32.Update(t.seed, castagnoli, b[start:]))
}

// decodeFooter reads the last bytes of the segment id, which is size bytes long.
func decodeFooter(b []byte, id ulid.ULID, size int64) (tally, error) {
	bad := &CorruptError{Offset: size - footerSize, Reason: "footer"}
	if len(b) != footerSize || binary.LittleEndian.Uint32(b) != footerMark {
		return tally{}, bad
	}
	t := newTally(id)
	t.frames = binary.LittleEndian.Uint32(b[4:])
	t.rows = binary.LittleEndian.Uint64(b[8:])
	t.size = int64(binary.LittleEndian.Uint64(b[16:]))
	t.content = binary.LittleEndian.Uint32(b[24:])
	if t.size+footerSize != size || !bytes.Equal(t.appendFooter(nil), b) {
		return tally{}, bad
	}
	return t, nil
}
