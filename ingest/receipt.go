package ingest

import (
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"github.com/oklog/ulid/v2"
)

// Receipt names the rows that one request left in a journal. Its text form is NODE.SEGMENT.FIRST.ROWS.CHECK: the node's id, a ULID,
// two decimal numbers, and the CRC-32C of all that in hex, which tells a mistyped receipt from one that is unknown.
type Receipt struct {
	Node    string
	Segment ulid.ULID
	First   uint32 // index of the first row in the segment
	Rows    int    // 1 to MaxItems
}

// ErrBadReceipt is returned by ParseReceipt for text that String did not make.
var ErrBadReceipt = errors.New("bad receipt")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// String is the receipt's text form.
func (r Receipt) String() string {
	body := r.Node + "." + r.Segment.String() + "." + strconv.FormatUint(uint64(r.First), 10) + "." + strconv.Itoa(r.Rows)
	return fmt.Sprintf("%s.%08x", body, crc32.Checksum([]byte(body), castagnoli))
}

// ParseReceipt reads the text form.
func ParseReceipt(s string) (Receipt, error) {
	parts := strings.Split(s, ".")
	if len(parts) != 5 || !validNode(parts[0]) {
		return Receipt{}, ErrBadReceipt
	}
	segment, err := ulid.ParseStrict(parts[1])
	if err != nil {
		return Receipt{}, ErrBadReceipt
	}
	first, err1 := strconv.ParseUint(parts[2], 10, 32)
	rows, err2 := strconv.ParseUint(parts[3], 10, 32)
	if err1 != nil || err2 != nil || rows < 1 || rows > MaxItems {
		return Receipt{}, ErrBadReceipt
	}
	r := Receipt{Node: parts[0], Segment: segment, First: uint32(first), Rows: int(rows)}
	if r.String() != s {
		return Receipt{}, ErrBadReceipt
	}
	return r, nil
}

// validNode accepts a node's id: what can stand in a receipt and in a file name.
func validNode(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !(c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}
