package ingest

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pagetally/pagetally/schema"
)

func TestRateTable(t *testing.T) {
	start := time.Unix(1000, 0)
	table := newRateTable(start, burstWindow)
	a, b := table.sender([16]byte{1}, "a.example"), table.sender([16]byte{1}, "b.example")
	passed := func(sender uint64, rate float64, tries int, at time.Duration) (n int) {
		for range tries {
			if table.take(sender, rate, start.Add(at), false) == 0 {
				n++
			}
		}
		return n
	}
	for _, tt := range []struct {
		name   string
		sender uint64
		rate   float64
		tries  int
		at     time.Duration
		want   int
	}{
		{"the burst is twice the rate", a, 100, 1000, 0, 200},
		{"nothing is left", a, 100, 10, 0, 0},
		{"another site is another sender", b, 100, 1000, 0, 200},
		{"half a second gives half the rate", a, 100, 1000, 500 * time.Millisecond, 50},
		{"a clock that goes back gives nothing", a, 100, 10, 0, 0},
		{"after a rest the burst is back", a, 100, 1000, time.Hour, 200},
		{"one in ten seconds", 77, 0.1, 10, time.Hour, 1},
		{"and not sooner", 77, 0.1, 10, time.Hour + 9*time.Second, 0},
		{"but then", 77, 0.1, 10, time.Hour + 10*time.Second, 1},
	} {
		if got := passed(tt.sender, tt.rate, tt.tries, tt.at); got != tt.want {
			t.Errorf("%s: %d pass, want %d", tt.name, got, tt.want)
		}
	}
	if wait := table.take(a, 100, start.Add(time.Hour), true); wait != 10*time.Millisecond {
		t.Errorf("wait %s, want the 10ms in which one more fits", wait)
	}
	if wait := table.take(a, 100, start.Add(time.Hour+10*time.Millisecond), true); wait != 0 {
		t.Errorf("a look waits %s", wait)
	}
}

// However many senders there are, whoever is at the limit stays there.
func TestRateTableRemembersTheBusiest(t *testing.T) {
	now := time.Unix(1000, 0)
	table := newRateTable(now, burstWindow)
	busy := table.sender([16]byte{9}, "example.com")
	for range 200 {
		table.take(busy, 100, now, false)
	}
	for i := range 1_000_000 {
		var address [16]byte
		copy(address[:], strconv.Itoa(i))
		if table.take(table.sender(address, "example.com"), 100, now, false) != 0 {
			t.Fatalf("sender %d is refused its first event", i)
		}
	}
	if table.take(busy, 100, now, false) == 0 {
		t.Error("the busiest sender was forgotten")
	}
}

func TestAddressKey(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1", "192.0.2.2", false},
		{"192.0.2.1", "::ffff:192.0.2.1", true},
		{"2001:db8::1", "2001:db8::ffff:2", true},
		{"2001:db8::1", "2001:db8:0:1::1", false},
		{"::1", "127.0.0.1", false},
	} {
		a, b := netip.MustParseAddr(tt.a).As16(), netip.MustParseAddr(tt.b).As16()
		if got := addressKey(a) == addressKey(b); got != tt.same {
			t.Errorf("%s and %s are the same: %t, want %t", tt.a, tt.b, got, tt.same)
		}
	}
}

// A site with low limits, behind a proxy on this machine that names the clients.
func limited(t *testing.T, limits Limits) *rig {
	return newRig(t, func(c *Config) {
		sites, err := NewSites([]Site{{Domain: "example.com", Limits: limits}, {Domain: "example.org"}}, false)
		if err != nil {
			t.Fatal(err)
		}
		proxies, err := NewProxies([]string{"127.0.0.1"}, "")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		c.Sites, c.Proxies, c.Now = sites, proxies, func() time.Time { return start }
	})
}

func from(address string) string { return "X-Forwarded-For: " + address }

const plain = `{"n":"pageview","u":"https://example.com/a","d":"example.com"}`

func TestRateOfAnAddress(t *testing.T) {
	r := limited(t, Limits{PerAddress: 1, PerSite: 100})
	r.beacon(202, plain, from("192.0.2.1"))
	r.beacon(202, plain, from("192.0.2.1"))
	got := r.beacon(429, plain, from("192.0.2.1"))
	if got.header.Get("Retry-After") != "1" || got.header.Get(HeaderReason) != "rate_limited" || !strings.HasPrefix(got.body, `{"errors":{"request":["`) {
		t.Errorf("429 with %v: %s", got.header, got.body)
	}
	r.beacon(202, plain, from("192.0.2.2"))
	r.beacon(202, plain, from("2001:db8::1"))
	r.beacon(202, plain, from("2001:db8::2"))
	r.beacon(429, plain, from("2001:db8::3"))
	r.beacon(202, plain, from("2001:db8:0:1::1"))
	r.beacon(202, strings.ReplaceAll(plain, "example.com", "example.org"), from("192.0.2.1"))

	// One of two sites took it: a 429 would make the client send it there again.
	both := r.beacon(202, `{"n":"pageview","u":"/a","d":"example.com,example.org"}`, from("192.0.2.1"))
	if both.header.Get(HeaderDropped) != "1" || both.header.Get(HeaderReason) != "rate_limited" {
		t.Errorf("one of two sites: %v", both.header)
	}
	// A bot takes nothing from the rate, and a caller with a key is not held to it.
	for range 5 {
		r.beacon(202, plain, from("192.0.2.9"), "User-Agent: curl/8.0")
		r.post(202, `{"site":"example.com","path":"/a"}`, from("192.0.2.1"), bearer(ingestSecret))
	}
	r.beacon(202, plain, from("192.0.2.9"))
	if got := r.do("GET", "/pixel.gif?site=example.com&path=/a", nil, from("192.0.2.1")); got.status != 429 || got.header.Get("Retry-After") != "1" {
		t.Errorf("image: %d with %v", got.status, got.header)
	}
	if n := r.refused(RateLimited); n != 4 {
		t.Errorf("%d refusals are counted, want 4", n)
	}
	if n := len(r.events()); n != 14 {
		t.Errorf("%d events, want 14", n)
	}
}

func TestRateOfASite(t *testing.T) {
	r := limited(t, Limits{PerAddress: 100, PerSite: 2})
	for i := range 4 {
		r.beacon(202, plain, from(fmt.Sprintf("192.0.2.%d", i)))
	}
	r.beacon(429, plain, from("192.0.2.200"))
	if n := len(r.events()); n != 4 {
		t.Errorf("%d events, want 4", n)
	}
}

// A batch without a key is as many beacons.
func TestRateOfABatch(t *testing.T) {
	r := limited(t, Limits{PerAddress: 1, PerSite: 100})
	const item = `{"site":"example.com","path":"/a"}`
	got := r.do("POST", "/v1/events", []byte("["+item+","+item+","+item+"]"), from("192.0.2.1"))
	var answer nativeReply
	if err := json.Unmarshal([]byte(got.body), &answer); err != nil {
		t.Fatal(err)
	}
	want := []itemError{{Index: 2, Reason: RateLimited}}
	if diff := cmp.Diff(want, answer.Errors); diff != "" || got.status != 202 || answer.Accepted != 2 || got.header.Get("Retry-After") != "1" {
		t.Errorf("%d %+v %v %s", got.status, answer, got.header, diff)
	}
	if answer := r.post(429, item, from("192.0.2.1")); answer.Error == nil || answer.Error.Code != "rate_limited" {
		t.Errorf("answer %+v", answer)
	}
}

// Callers on this machine have the rights of a key when the server takes them for what they are.
func TestRateSparesThisMachine(t *testing.T) {
	r := newRig(t, func(c *Config) {
		sites, err := NewSites([]Site{{Domain: "example.com", Limits: Limits{PerAddress: 1, PerSite: 1}}}, false)
		if err != nil {
			t.Fatal(err)
		}
		c.Sites, c.TrustLoopback = sites, true
	})
	for range 10 {
		r.beacon(202, plain)
	}
	if n := len(r.events()); n != 10 {
		t.Errorf("%d events, want 10", n)
	}
}

func TestNewPathsAreFolded(t *testing.T) {
	r := limited(t, Limits{PerAddress: 1e6, PerSite: 1e6, NewPathsDay: 3})
	for _, path := range []string{"/1", "/2", "/3", "/4", "/1", "/5", "/2/"} {
		r.beacon(202, fmt.Sprintf(`{"n":"pageview","u":"https://example.com%s","d":"example.com"}`, path))
	}
	r.post(202, `{"site":"example.com","path":"/import"}`, bearer(ingestSecret))
	r.beacon(202, `{"n":"pageview","u":"https://example.org/6","d":"example.org"}`)
	var got []string
	for _, e := range r.events() {
		got = append(got, fmt.Sprintf("%s %s %d", e.Path, e.PathKey, e.Flags&schema.FlagPathFolded))
	}
	want := []string{"/1 /1 0", "/2 /2 0", "/3 /3 0", "/4 (other) 4", "/1 /1 0", "/5 (other) 4", "/2 /2 0", "/import /import 0", "/6 /6 0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPathSet(t *testing.T) {
	const most = 64 << 10
	p := newPathSet(most)
	const limit = 2000
	admitted := func(site string, n int, day Day) (sum int) {
		for i := range n {
			if p.admit(site, strconv.Itoa(i), limit, day, false) {
				sum++
			}
		}
		return sum
	}
	if p.admit("a", "x", 1, 1, true); p.sites["a"] != 0 {
		t.Error("a look takes a place")
	}
	for _, tt := range []struct {
		site string
		n    int
		day  Day
		want int
	}{
		{"a", limit + 100, 1, limit}, {"a", limit, 1, limit}, {"b", 50, 1, 50},
		{"a", limit + 1, 2, limit}, {"a", limit + 1, 1, limit},
	} {
		if got := admitted(tt.site, tt.n, tt.day); got != tt.want {
			t.Errorf("%d of %d paths of %s on day %d, want %d", got, tt.n, tt.site, tt.day, tt.want)
		}
	}
	// However many paths there are, memory is bounded.
	for i := range 2 * most {
		p.admit("c", strconv.Itoa(i), 1<<30, 3, false)
	}
	size := 0
	for i := range p.shards {
		size += len(p.shards[i].table)
	}
	if n := p.sites["c"]; size > 2*most || n > most || n < most*9/10 {
		t.Errorf("%d paths in %d places", p.sites["c"], size)
	}
}

func BenchmarkLimits(b *testing.B) {
	now := time.Now()
	table, paths := newRateTable(now, burstWindow), newPathSet(maxPaths)
	address := netip.MustParseAddr("192.0.2.7").As16()
	b.Run("rate", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			table.take(table.sender(addressKey(address), "example.com"), 1e9, now, false)
		}
	})
	b.Run("paths", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			paths.admit("example.com", "/blog/some-article", 100_000, 1, false)
		}
	})
}
