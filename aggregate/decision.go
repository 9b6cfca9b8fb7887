package aggregate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
)

// decisionFormat is the version of the decision file; a reader refuses newer ones.
const decisionFormat = 1

// maxDecisionRows bounds what a decision file may speak of, far above what a group holds.
const maxDecisionRows = 1 << 26

// Decision fixes what becomes of a group of segments before anything of it is inserted, so that every later try sends the same rows
// in the same blocks under the same tokens. Rows are numbered through the group's segments in their order.
type Decision struct {
	ID       ulid.ULID         `json:"id"`
	Node     string            `json:"node"`
	Created  time.Time         `json:"created"`
	Segments []SegmentRef      `json:"segments"`
	Settings map[string]string `json:"settings"` // of every INSERT of the group

	Duplicates []uint32 `json:"duplicates,omitempty"` // rows dropped: another event owns their id
	Parked     []uint32 `json:"parked,omitempty"`     // rows kept for later: the owner of their id may yet vanish

	// ParkedAs and QuarantinedAs name the segments that parked and quarantined rows are written to, so that doing so twice is once.
	ParkedAs      ulid.ULID `json:"parked_as"`
	QuarantinedAs ulid.ULID `json:"quarantined_as"`

	Oldest  time.Time `json:"oldest"` // earliest receive time among the rows
	Touched []SiteDay `json:"touched"`
	Batches []*Batch  `json:"batches"`
}

// SegmentRef names a segment and what delivery must know of it without opening it.
type SegmentRef struct {
	ID   ulid.ULID `json:"id"`
	Kind string    `json:"kind"`
	Rows uint32    `json:"rows"`
}

// SiteDay is a UTC day of a site that a batch adds to.
type SiteDay struct {
	Site string `json:"site"`
	Day  string `json:"day"` // 2006-01-02
}

// Batch is one INSERT: the rows From <= row < To of its group, less the group's duplicates and parked rows and, if Months is set,
// only those of the given months.
type Batch struct {
	ID      ulid.ULID      `json:"id"` // the deduplication token
	From    uint32         `json:"from"`
	To      uint32         `json:"to"`
	Months  []int          `json:"months,omitempty"`
	Rows    int            `json:"rows"`
	N       int64          `json:"n"`
	CRC     uint32         `json:"crc"` // CRC-32C over the rows' encodings
	Parts   []PartitionSum `json:"parts"`
	MinTS   int64          `json:"min_ts"` // Unix milliseconds
	MaxTS   int64          `json:"max_ts"`
	State   BatchState     `json:"state"`
	Reason  string         `json:"reason,omitempty"`  // of a quarantined batch
	Outcome string         `json:"outcome,omitempty"` // how a stored batch got there

	retried bool // a retry under the token answered OK in this process
}

// PartitionSum is what a batch adds to one monthly partition of `events`.
type PartitionSum struct {
	Month int    `json:"month"` // year*100 + month
	Rows  uint64 `json:"rows"`
	N     int64  `json:"n"`
}

// BatchState says how far a batch has come. Only the states that must survive a restart exist: a pending batch found in a decision
// file is uncertain by that alone.
type BatchState string

// The states of a batch.
const (
	BatchPending     BatchState = "pending"
	BatchStored      BatchState = "stored"
	BatchSplit       BatchState = "split"       // replaced by two halves
	BatchQuarantined BatchState = "quarantined" // its single row is set aside
)

// ErrDecision is wrapped by every error about a decision file that cannot be used.
var ErrDecision = errors.New("unusable decision file")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode writes the decision file: one line with the format and a CRC-32C of the rest, then JSON that people can read.
func (d *Decision) encode() ([]byte, error) {
	body, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode decision: %w", err)
	}
	head := fmt.Sprintf("pagetally-decision %d crc32c=%08x\n", decisionFormat, crc32.Checksum(body, castagnoli))
	return append([]byte(head), body...), nil
}

// decodeDecision reads what encode wrote and refuses anything else, including what a shorter or changed file still seems to say.
func decodeDecision(content []byte) (*Decision, error) {
	head, body, ok := bytes.Cut(content, []byte("\n"))
	if !ok {
		return nil, fmt.Errorf("%w: no header line", ErrDecision)
	}
	var format int
	var sum uint32
	if _, err := fmt.Sscanf(string(head), "pagetally-decision %d crc32c=%08x", &format, &sum); err != nil {
		return nil, fmt.Errorf("%w: header: %w", ErrDecision, err)
	}
	if format != decisionFormat {
		return nil, fmt.Errorf("%w: format %d, this version reads %d", ErrDecision, format, decisionFormat)
	}
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, fmt.Errorf("%w: checksum does not match", ErrDecision)
	}
	d := new(Decision)
	if err := json.Unmarshal(body, d); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDecision, err)
	}
	return d, d.check()
}

// check refuses a decision whose parts contradict each other, so that later code may index by them.
func (d *Decision) check() error {
	total := d.rows()
	if len(d.Segments) == 0 || total > maxDecisionRows {
		return fmt.Errorf("%w: %d segments with %d rows", ErrDecision, len(d.Segments), total)
	}
	for _, rows := range [][]uint32{d.Duplicates, d.Parked} {
		if !slices.IsSorted(rows) || len(rows) > 0 && uint64(rows[len(rows)-1]) >= total {
			return fmt.Errorf("%w: row numbers out of order or range", ErrDecision)
		}
	}
	for _, b := range d.Batches {
		if b == nil || b.From > b.To || uint64(b.To) > total || b.Rows < 0 || b.Rows > int(b.To-b.From) {
			return fmt.Errorf("%w: batch outside its group", ErrDecision)
		}
	}
	return nil
}

// rows is the number of rows in the group's segments.
func (d *Decision) rows() (n uint64) {
	for _, s := range d.Segments {
		n += uint64(s.Rows)
	}
	return n
}

// pending lists the batches that are still to be settled, in order.
func (d *Decision) pending() []*Batch {
	var list []*Batch
	for _, b := range d.Batches {
		if b.State == BatchPending {
			list = append(list, b)
		}
	}
	return list
}

// stored counts the rows that are in the tables, and adds up their n.
func (d *Decision) stored() (rows, n int64) {
	for _, b := range d.Batches {
		if b.State == BatchStored {
			rows, n = rows+int64(b.Rows), n+b.N
		}
	}
	return rows, n
}

// quarantined lists the batches of single rows that were set aside.
func (d *Decision) quarantined() []*Batch {
	var list []*Batch
	for _, b := range d.Batches {
		if b.State == BatchQuarantined {
			list = append(list, b)
		}
	}
	return list
}
