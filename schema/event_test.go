package schema

import (
	"encoding/hex"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fullEvent has a value of its own in every field, so that two fields changed for one another are seen.
func fullEvent() Event {
	e := Event{
		TS: -5, ReceivedAt: math.MaxInt64, Visitor: math.MaxUint64, N: -MaxN, EngagedMS: math.MaxUint32, Scroll: 100, Flags: math.MaxUint16,
		Props: []Prop{{"a", "1"}, {"", ""}, {"a", "2"}},
	}
	for _, c := range stringColumns {
		*c.of(&e) = "value of " + c.name
	}
	return e
}

func TestEventRoundTrip(t *testing.T) {
	long := Event{Title: strings.Repeat("ü", 70_000), Scroll: NoScroll}
	extremes := Event{TS: math.MinInt64, ReceivedAt: math.MaxInt64, N: math.MinInt64, Props: []Prop{{"k", ""}}}
	for name, want := range map[string]Event{
		"zero": {}, "full": fullEvent(), "sample": sample(3), "long": long, "extremes": extremes, "not UTF-8": {Title: "\xff\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			encoded := want.AppendTo([]byte("before"))
			var got Event
			rest, err := DecodeEvent(string(encoded[len("before"):])+"after", &got)
			if err != nil || rest != "after" {
				t.Fatalf("rest %q, error %v", rest, err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestRandomEventsRoundTrip(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	var encoded []byte
	want := make([]Event, 500)
	for i := range want {
		want[i] = randomEvent(r)
		encoded = want[i].AppendTo(encoded)
	}
	rest := string(encoded)
	for i := range want {
		var got Event
		var err error
		if rest, err = DecodeEvent(rest, &got); err != nil {
			t.Fatalf("seed %d, event %d: %v", seed, i, err)
		}
		if diff := cmp.Diff(want[i], got); diff != "" {
			t.Fatalf("seed %d, event %d (-want +got):\n%s", seed, i, diff)
		}
	}
	if rest != "" {
		t.Errorf("seed %d: %d bytes left", seed, len(rest))
	}
}

func randomEvent(r *rand.Rand) Event {
	text := func() string {
		b := make([]byte, r.IntN(200)>>r.IntN(8))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return string(b)
	}
	// Numbers of every length.
	number := func() uint64 { return r.Uint64() >> r.IntN(64) }
	e := Event{
		TS: int64(number()), ReceivedAt: -int64(number()), Visitor: number(), N: int64(number()),
		EngagedMS: uint32(number()), Scroll: uint8(number()), Flags: uint16(number()),
	}
	for _, c := range stringColumns {
		*c.of(&e) = text()
	}
	for range r.IntN(4) {
		e.Props = append(e.Props, Prop{text(), text()})
	}
	return e
}

func TestProperPrefixOfEventIsRefused(t *testing.T) {
	for _, e := range []Event{{}, fullEvent(), sample(1)} {
		encoded := string(e.AppendTo(nil))
		for n := range encoded {
			var got Event
			if rest, err := DecodeEvent(encoded[:n], &got); !errors.Is(err, ErrCorruptEvent) {
				t.Fatalf("first %d of %d bytes: rest %q, error %v, want ErrCorruptEvent", n, len(encoded), rest, err)
			}
		}
	}
}

func TestDecodeRefusesValuesOutOfRange(t *testing.T) {
	zero := Event{}
	encoded := zero.AppendTo(nil)
	// 27 empty texts, then one byte each for ts, received_at, eight for the visitor, one for n.
	numbers := len(stringColumns) + 1 + 1 + 8 + 1
	for name, test := range map[string]struct {
		at    int
		value string
	}{
		"engaged_ms of 33 bits":       {numbers, "\x80\x80\x80\x80\x10"},
		"flags of 17 bits":            {numbers + 2, "\x80\x80\x04"},
		"length over 64 bits":         {0, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"},
		"number without end":          {0, strings.Repeat("\x80", 11)},
		"more props than bytes":       {numbers + 3, "\xff\xff\xff\xff\x0f"},
		"text longer than the buffer": {0, "\xff\x01"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := string(encoded[:test.at]) + test.value + string(encoded[test.at+1:])
			var e Event
			if _, err := DecodeEvent(bad, &e); !errors.Is(err, ErrCorruptEvent) {
				t.Errorf("got %v, want ErrCorruptEvent", err)
			}
		})
	}
}

// The encoding, the hashes and the format are on disk: a change here needs another EventFormat, and the hashes may never change.
func TestStoredFormsNeverChange(t *testing.T) {
	e := Event{
		Site: "example.com", Name: PageView, Hostname: "example.com", Path: "/ü", PathKey: "/ü", Title: "T", Referrer: "https://r.example/",
		EventID: "id-1", Namespace: "key-1", TS: 1_740_830_400_000, ReceivedAt: 1_740_830_400_250, Visitor: 0x0102030405060708, N: 1,
		Scroll: NoScroll, Flags: FlagTimeReplaced, Props: []Prop{{"plan", "free"}},
	}
	hash, ok := e.IDHash()
	if got, want := hex.EncodeToString(hash[:]), "04def39bae73ed5c0372751a7710919a"; got != want || !ok {
		t.Errorf("IDHash: got %s, %v, want %s", got, ok, want)
	}
	if got, want := e.ContentHash(), uint64(0xe549d4ca090d06ee); got != want {
		t.Errorf("ContentHash: got %#x, want %#x", got, want)
	}
	encoded := string(e.AppendTo(nil))
	wantEncoded := "0b6578616d706c652e636f6d" + "087061676576696577" + "0b6578616d706c652e636f6d" + "032fc3bc" + "032fc3bc" + "0154" + // site to title
		"1268747470733a2f2f722e6578616d706c652f" + "0000000000000000000000000000000000" + // referrer, then 17 that are empty
		"0469642d31" + "056b65792d31" + "00" + // event_id, namespace, job
		"80f89e99aa65" + "f403" + "0807060504030201" + "02" + // ts, received_at, visitor, n
		"00" + "ff" + "01" + // engaged_ms, scroll, flags
		"01" + "04706c616e" + "0466726565" // props
	if got, want := hex.EncodeToString([]byte(encoded)), wantEncoded; got != want {
		t.Errorf("encoding: got %s, want %s", got, want)
	}
	if got, want := Checksum(Checksum(0, encoded[:10]), encoded[10:]), uint32(0xe5017b0b); got != want {
		t.Errorf("Checksum: got %#x, want %#x", got, want)
	}
}

func TestIDHashTellsIdsApart(t *testing.T) {
	seen := make(map[[16]byte]Event)
	for _, e := range []Event{
		{Site: "a", EventID: "1"}, {Site: "b", EventID: "1"}, {Site: "a", EventID: "2"}, {Site: "a", Namespace: "k", EventID: "1"},
		{Site: "ak", EventID: "1"}, {Site: "a", Namespace: "k1", EventID: "1"}, {Site: "a", Namespace: "k", EventID: "11"},
	} {
		hash, ok := e.IDHash()
		if other, taken := seen[hash]; taken || !ok {
			t.Errorf("%+v: hash of %+v, %v", e, other, ok)
		}
		seen[hash] = e
	}
	if _, ok := (&Event{Site: "a"}).IDHash(); ok {
		t.Error("no id: got a hash")
	}
}

func TestContentHashIsOfWhatTheSenderSaid(t *testing.T) {
	base := sample(1)
	same, other := base, base
	same.ReceivedAt, same.Visitor, same.TS, same.PathKey = 1, 2, 3, "(other)"
	other.Title = "Another"
	if base.ContentHash() != same.ContentHash() {
		t.Error("a retry received later has another content")
	}
	if base.ContentHash() == other.ContentHash() {
		t.Error("another title has the same content")
	}
}

func TestCheck(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Event)
		want   string
	}{
		"good":        {func(*Event) {}, ""},
		"least n":     {func(e *Event) { e.N = -MaxN }, ""},
		"no site":     {func(e *Event) { e.Site = "" }, "site is empty"},
		"no name":     {func(e *Event) { e.Name = "" }, "name is empty"},
		"n of 0":      {func(e *Event) { e.N = 0 }, "n is 0, want a non-zero number within ±1000000000"},
		"n too large": {func(e *Event) { e.N = MaxN + 1 }, "n is 1000000001, want a non-zero number within ±1000000000"},
		"before 1970": {func(e *Event) { e.TS = -1 }, "ts -1 is outside 1970-2105"},
		"after 2105":  {func(e *Event) { e.TS = maxTS }, "ts 4260000000000 is outside 1970-2105"},
	} {
		t.Run(name, func(t *testing.T) {
			e := sample(1)
			test.change(&e)
			got := ""
			if err := e.Check(); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func FuzzDecodeEvent(f *testing.F) {
	for _, e := range []Event{{}, fullEvent(), sample(1)} {
		f.Add(string(e.AppendTo(nil)))
	}
	f.Fuzz(func(t *testing.T, s string) {
		var e Event
		rest, err := DecodeEvent(s, &e)
		if err != nil {
			if !errors.Is(err, ErrCorruptEvent) || rest != "" {
				t.Fatalf("rest %q, error %v", rest, err)
			}
			return
		}
		// What was read means the same when it is written again; it may be shorter, since a number has longer forms.
		encoded := e.AppendTo(nil)
		if len(encoded) > len(s)-len(rest) {
			t.Fatalf("%d bytes read as %d", len(s)-len(rest), len(encoded))
		}
		var again Event
		if rest, err := DecodeEvent(string(encoded), &again); err != nil || rest != "" {
			t.Fatalf("written again: rest %q, error %v", rest, err)
		}
		if diff := cmp.Diff(e, again); diff != "" {
			t.Fatalf("written again (-first +second):\n%s", diff)
		}
	})
}
