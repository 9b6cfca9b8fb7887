package schema

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"unsafe"

	"github.com/dchest/siphash"
)

// Names of events with a meaning of their own; every other name is a custom event.
const (
	PageView   = "pageview"
	Engagement = "engagement" // a ping that carries scroll depth and engaged time; never part of views or events
)

// MaxN bounds the absolute value of Event.N, so that a sum of 2^33 events stays inside Int64.
const MaxN = 1_000_000_000

// Flags of an event.
const (
	FlagTimeReplaced   uint16 = 1 << iota // the client's time was unusable and the receive time stands in for it
	FlagNonInteractive                    // does not end a bounce
	FlagPathFolded                        // PathKey is "(other)": the site had too many new paths that day
)

// Event is one view event as it is journaled, inserted and read: everything about it is final once it is journaled.
// Strings decoded by DecodeEvent share the decoded buffer, which must not be changed afterwards.
type Event struct {
	Site     string
	Name     string // PageView, Engagement or a custom name
	Hostname string // lower case, without port and leading "www."; empty when the client sent a path only
	Path     string // page key of rule R2, before the cardinality guard
	PathKey  string // what the counters are keyed by: Path, or "(other)"
	Title    string
	Referrer string
	Source   string
	Channel  string

	UTMSource   string
	UTMMedium   string
	UTMCampaign string
	UTMContent  string
	UTMTerm     string

	Country        string // ISO 3166-1 alpha-2, or empty when unknown
	Region         string
	City           string
	Browser        string
	BrowserVersion string
	OS             string
	OSVersion      string
	Device         string
	Screen         string
	Language       string

	EventID   string // as the client sent it; empty when it sent none
	Namespace string // of EventID: empty for the public, else the API key's id
	Job       string // backfill job, empty for live events

	TS         int64  // Unix milliseconds
	ReceivedAt int64  // Unix milliseconds
	Visitor    uint64 // 0 when unknown: not counted as a visitor
	N          int64  // 1 from a browser; any non-zero value within MaxN from a keyed caller
	EngagedMS  uint32 // milliseconds, engagement pings only
	Scroll     uint8  // 0-100 per cent, engagement pings only; 255 when absent
	Flags      uint16

	Props []Prop
}

// Prop is one custom property of an event.
type Prop struct{ Key, Value string }

// NoScroll is Event.Scroll when no scroll depth was sent.
const NoScroll uint8 = 255

// stringColumns lists the text columns of the inbox in the order in which the codec writes them.
// Append new ones at the end: the codec's format version counts on the order.
var stringColumns = []struct {
	name string
	of   func(*Event) *string
}{
	{"site", func(e *Event) *string { return &e.Site }},
	{"name", func(e *Event) *string { return &e.Name }},
	{"hostname", func(e *Event) *string { return &e.Hostname }},
	{"path", func(e *Event) *string { return &e.Path }},
	{"path_key", func(e *Event) *string { return &e.PathKey }},
	{"title", func(e *Event) *string { return &e.Title }},
	{"referrer", func(e *Event) *string { return &e.Referrer }},
	{"source", func(e *Event) *string { return &e.Source }},
	{"channel", func(e *Event) *string { return &e.Channel }},
	{"utm_source", func(e *Event) *string { return &e.UTMSource }},
	{"utm_medium", func(e *Event) *string { return &e.UTMMedium }},
	{"utm_campaign", func(e *Event) *string { return &e.UTMCampaign }},
	{"utm_content", func(e *Event) *string { return &e.UTMContent }},
	{"utm_term", func(e *Event) *string { return &e.UTMTerm }},
	{"country", func(e *Event) *string { return &e.Country }},
	{"region", func(e *Event) *string { return &e.Region }},
	{"city", func(e *Event) *string { return &e.City }},
	{"browser", func(e *Event) *string { return &e.Browser }},
	{"browser_version", func(e *Event) *string { return &e.BrowserVersion }},
	{"os", func(e *Event) *string { return &e.OS }},
	{"os_version", func(e *Event) *string { return &e.OSVersion }},
	{"device", func(e *Event) *string { return &e.Device }},
	{"screen", func(e *Event) *string { return &e.Screen }},
	{"language", func(e *Event) *string { return &e.Language }},
	{"event_id", func(e *Event) *string { return &e.EventID }},
	{"namespace", func(e *Event) *string { return &e.Namespace }},
	{"job", func(e *Event) *string { return &e.Job }},
}

// EventFormat is the version of the encoding written by Event.AppendTo; a segment's header names it.
const EventFormat = 1

// ErrCorruptEvent is returned by DecodeEvent for bytes that AppendTo did not write.
var ErrCorruptEvent = errors.New("corrupt event encoding")

// AppendTo appends the journal encoding of e to b and returns the longer slice. The encoding, format 1:
//
//	for each of stringColumns: uvarint length, bytes
//	varint ts | varint received_at - ts | visitor (8 bytes, little endian) | varint n
//	uvarint engaged_ms | scroll (1 byte) | uvarint flags
//	uvarint number of props | for each: key and value as uvarint length, bytes
func (e *Event) AppendTo(b []byte) []byte {
	for i := range stringColumns {
		b = appendString(b, *stringColumns[i].of(e))
	}
	b = binary.AppendVarint(b, e.TS)
	b = binary.AppendVarint(b, e.ReceivedAt-e.TS)
	b = binary.LittleEndian.AppendUint64(b, e.Visitor)
	b = binary.AppendVarint(b, e.N)
	b = binary.AppendUvarint(b, uint64(e.EngagedMS))
	b = append(b, e.Scroll)
	b = binary.AppendUvarint(b, uint64(e.Flags))
	b = binary.AppendUvarint(b, uint64(len(e.Props)))
	for _, p := range e.Props {
		b = appendString(b, p.Key)
		b = appendString(b, p.Value)
	}
	return b
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// DecodeEvent reads one event from the front of s and returns what follows it. The event's strings are parts of s.
func DecodeEvent(s string, e *Event) (rest string, err error) {
	d := decoder{s: s}
	for i := range stringColumns {
		*stringColumns[i].of(e) = d.string()
	}
	e.TS = d.varint()
	e.ReceivedAt = e.TS + d.varint()
	e.Visitor = d.uint64()
	e.N = d.varint()
	e.EngagedMS = uint32(d.uvarintMax(1<<32 - 1))
	e.Scroll = d.byte()
	e.Flags = uint16(d.uvarintMax(1<<16 - 1))
	e.Props = nil
	// A prop takes two bytes at the least, which bounds the allocation by the input.
	if n := d.uvarintMax(uint64(len(d.s) / 2)); n > 0 {
		e.Props = make([]Prop, n)
		for i := range e.Props {
			e.Props[i] = Prop{Key: d.string(), Value: d.string()}
		}
	}
	if d.bad {
		return "", ErrCorruptEvent
	}
	return d.s, nil
}

// decoder reads primitives from the front of s; after the first one that does not fit it stays bad.
type decoder struct {
	s   string
	bad bool
}

func (d *decoder) take(n uint64) string {
	if d.bad || n > uint64(len(d.s)) {
		d.bad = true
		return ""
	}
	v := d.s[:n]
	d.s = d.s[n:]
	return v
}

func (d *decoder) string() string { return d.take(d.uvarint()) }

func (d *decoder) byte() byte {
	if v := d.take(1); !d.bad {
		return v[0]
	}
	return 0
}

func (d *decoder) uint64() uint64 {
	v := d.take(8)
	if d.bad {
		return 0
	}
	return binary.LittleEndian.Uint64([]byte(v))
}

func (d *decoder) uvarint() uint64 {
	var x uint64
	for shift := 0; shift < 64; shift += 7 {
		c := d.byte()
		if shift == 63 && c > 1 {
			break
		}
		x |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return x
		}
	}
	d.bad = true
	return 0
}

func (d *decoder) uvarintMax(limit uint64) uint64 {
	v := d.uvarint()
	if v > limit {
		d.bad = true
		return 0
	}
	return v
}

func (d *decoder) varint() int64 {
	u := d.uvarint()
	x := int64(u >> 1)
	if u&1 != 0 {
		x = ^x
	}
	return x
}

// IDHash identifies the event for duplicate detection: 128 bits over site, namespace and id.
// ok is false when the event carries no id, so that nothing can be said about it.
func (e *Event) IDHash() (h [16]byte, ok bool) {
	if e.EventID == "" {
		return h, false
	}
	b := make([]byte, 0, 128)
	b = appendString(b, e.Site)
	b = appendString(b, e.Namespace)
	b = append(b, e.EventID...)
	// The keys are constants: the hash is stored, compared between nodes and must not depend on the process.
	lo, hi := siphash.Hash128(0x7061676574616c6c, 0x792d6576656e7431, b)
	binary.LittleEndian.PutUint64(h[:8], lo)
	binary.LittleEndian.PutUint64(h[8:], hi)
	return h, true
}

// ContentHash covers what the sender said, without what receiving it added (receive time, visitor), so that a retry of an
// event compares equal and another event under a used id does not.
func (e *Event) ContentHash() uint64 {
	b := make([]byte, 0, 256)
	for _, s := range []string{e.Name, e.Hostname, e.Path, e.Title, e.Referrer} {
		b = appendString(b, s)
	}
	b = binary.AppendVarint(b, e.N)
	for _, p := range e.Props {
		b = appendString(b, p.Key)
		b = appendString(b, p.Value)
	}
	return siphash.Hash(0x7061676574616c6c, 0x792d636f6e74656e, b)
}

// Month is the events partition that holds e: year*100 + month, UTC.
func (e *Event) Month() int { return monthOf(e.TS) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum continues a CRC-32C over encoded events; a batch's decision fixes it over all rows of the batch.
func Checksum(sum uint32, encoded string) uint32 {
	return crc32.Update(sum, castagnoli, unsafe.Slice(unsafe.StringData(encoded), len(encoded)))
}

// Check reports what makes e unfit to be journaled: limits that the tables rely on, not the dialects' own.
func (e *Event) Check() error {
	switch {
	case e.Site == "":
		return errors.New("site is empty")
	case e.Name == "":
		return errors.New("name is empty")
	case e.N == 0 || e.N > MaxN || e.N < -MaxN:
		return fmt.Errorf("n is %d, want a non-zero number within ±%d", e.N, MaxN)
	case e.TS < minTS || e.TS >= maxTS:
		return fmt.Errorf("ts %d is outside 1970-2105", e.TS)
	}
	return nil
}
