package aggregate

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/oklog/ulid/v2"
)

func exampleDecision() *Decision {
	return &Decision{
		ID: ulid.Make(), Node: "n1", Created: time.UnixMilli(1764500000123).UTC(),
		Segments:   []SegmentRef{{ID: ulid.Make(), Kind: "live", Rows: 7}, {ID: ulid.Make(), Kind: "parked", Rows: 3}},
		Settings:   insertSettings(),
		Duplicates: []uint32{1, 4}, Parked: []uint32{9},
		ParkedAs: ulid.Make(), QuarantinedAs: ulid.Make(),
		Oldest: time.UnixMilli(1764500000000).UTC(), Touched: []SiteDay{{Site: "example.com", Day: "2025-11-30"}},
		Batches: []*Batch{{
			ID: ulid.Make(), To: 10, Rows: 7, N: -3, CRC: 0xdeadbeef, Parts: []PartitionSum{{Month: 202511, Rows: 7, N: -3}},
			MinTS: 1764500000000, MaxTS: 1764500001000, State: BatchPending,
		}},
	}
}

func encoded(t testing.TB, d *Decision) []byte {
	t.Helper()
	content, err := d.encode()
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestDecisionSurvivesItsFile(t *testing.T) {
	want := exampleDecision()
	got, err := decodeDecision(encoded(t, want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(Batch{})); diff != "" {
		t.Errorf("decision differs (-want +got):\n%s", diff)
	}
}

func TestDamagedDecisionIsRefused(t *testing.T) {
	content := encoded(t, exampleDecision())
	for n := range len(content) {
		if _, err := decodeDecision(content[:n]); !errors.Is(err, ErrDecision) {
			t.Fatalf("the first %d of %d bytes were read: %v", n, len(content), err)
		}
	}
	for i := range content {
		changed := append([]byte(nil), content...)
		changed[i] ^= 1
		// In the header the case of a digit or a space may change without changing the meaning; behind it nothing may.
		if _, err := decodeDecision(changed); err == nil && i > bytes.IndexByte(content, '\n') {
			t.Fatalf("byte %d was changed and the decision read all the same", i)
		}
	}
}

func TestContradictoryDecisionIsRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Decision)
	}{
		{"no segments", func(d *Decision) { d.Segments = nil }},
		{"duplicate beyond the rows", func(d *Decision) { d.Duplicates = []uint32{10} }},
		{"unordered parked rows", func(d *Decision) { d.Parked = []uint32{3, 2} }},
		{"batch beyond the rows", func(d *Decision) { d.Batches[0].To = 11 }},
		{"batch from behind its end", func(d *Decision) { d.Batches[0].From = 11 }},
		{"more rows than places", func(d *Decision) { d.Batches[0].Rows = 11 }},
		{"no batch", func(d *Decision) { d.Batches[0] = nil }},
		{"rows beyond all reason", func(d *Decision) { d.Segments[0].Rows = math.MaxUint32 }},
	} {
		d := exampleDecision()
		c.change(d)
		if _, err := decodeDecision(encoded(t, d)); !errors.Is(err, ErrDecision) {
			t.Errorf("%s: read, error %v", c.name, err)
		}
	}
}

func FuzzDecodeDecision(f *testing.F) {
	f.Add([]byte("pagetally-decision 1 crc32c=00000000\n{}"))
	f.Add(encoded(f, exampleDecision()))
	f.Fuzz(func(t *testing.T, content []byte) {
		d, err := decodeDecision(content)
		if err != nil {
			if !errors.Is(err, ErrDecision) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		// What is accepted may be indexed by: these must not panic.
		newGroup(d, nil)
		d.closing()
		again, err := decodeDecision(encoded(t, d))
		if err != nil || !cmp.Equal(d, again, cmpopts.IgnoreUnexported(Batch{}), cmpopts.EquateEmpty()) {
			t.Fatalf("read, written and read again it differs: %v", err)
		}
	})
}

func TestParseOwner(t *testing.T) {
	want := Owner{Segment: ulid.Make(), Index: math.MaxUint32}
	if got, err := ParseOwner(want.String()); err != nil || got != want {
		t.Errorf("ParseOwner(%q) = %v, %v", want, got, err)
	}
	id := ulid.Make().String()
	for _, bad := range []string{"", id, id + ":", id + ":-1", id + ":4294967296", id + ":99999999999999999999", id + ";1", "x:1"} {
		if got, err := ParseOwner(bad); err == nil {
			t.Errorf("ParseOwner(%q) = %v, want an error", bad, got)
		}
	}
}
