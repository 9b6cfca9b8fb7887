package aggregate

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"

	"github.com/pagetally/pagetally/aggregate/redistest"
	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
)

// eachRedis runs a test on both kinds of Redis.
func eachRedis(t *testing.T, test func(t *testing.T, client redis.UniversalClient)) {
	t.Run("embedded", func(t *testing.T) {
		m := miniredis.RunT(t)
		c := redis.NewClient(&redis.Options{Addr: m.Addr()})
		t.Cleanup(func() { _ = c.Close() })
		test(t, c)
	})
	t.Run("server", func(t *testing.T) { test(t, redistest.Start(t).Client()) })
}

// startHot runs a Hot until the end of the test.
func startHot(t *testing.T, client redis.UniversalClient) *Hot {
	t.Helper()
	h, err := NewHot(HotConfig{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	run(t, h.Run)
	return h
}

func run(t *testing.T, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// hotSum adds up a field over the last minutes.
func hotSum(t *testing.T, client redis.UniversalClient, site, field string) int64 {
	t.Helper()
	var sum int64
	for m := time.Now().Unix()/60 - schema.HotMinutes; m <= time.Now().Unix()/60; m++ {
		n, err := client.HGet(t.Context(), schema.HotMinuteKey(site, m), field).Int64()
		if err != nil && err != redis.Nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// requireExpiry checks that no key of the hot counts lives for ever.
func requireExpiry(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	keys, err := client.Keys(t.Context(), "pagetally:*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatalf("%d keys, %v", len(keys), err)
	}
	for _, key := range keys {
		if ttl := client.TTL(t.Context(), key).Val(); ttl <= 0 || ttl > hotExpiry {
			t.Errorf("key %s lives for %v", key, ttl)
		}
	}
}

func TestHotCountsWhatIsDecidedOnce(t *testing.T) {
	eachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		r := newRig(t)
		h := startHot(t, client)
		for i := range 100 {
			e := r.event()
			e.EventID = fmt.Sprint(i)
			r.count(e)
			r.append(e) // the same id again
			if i%20 == 19 {
				r.seal()
			}
		}
		r.deliver(func(c *Config) { c.Hot = h })
		var want int64
		for _, n := range r.want {
			want += n
		}
		r.eventually("hot counts", func() bool { return hotSum(t, client, "example.com", schema.HotViews) == want })
		for path, n := range r.want {
			if got := hotSum(t, client, "example.com", schema.HotPath+path); got != n {
				t.Errorf("%s: %d hot views, want %d", path, got, n)
			}
		}
		requireExpiry(t, client)
	})
}

// hotGroup is a decided group of n page views of this minute.
func hotGroup(t *testing.T, r *rig, n int) *group {
	t.Helper()
	for i := range n {
		e := r.event()
		e.Path, e.TS = fmt.Sprintf("/page/%d", i), time.Now().UnixMilli()
		r.append(e)
	}
	r.seal()
	infos := r.list(journal.StateSealed)
	d, err := New(Config{Conn: r.conn, Journal: r.journal})
	if err != nil {
		t.Fatal(err)
	}
	segments, err := d.openSegments([]SegmentRef{{ID: infos[len(infos)-1].ID}}, journal.StateSealed)
	if err != nil {
		t.Fatal(err)
	}
	return newGroup(&Decision{ID: d.newID(), Batches: []*Batch{{ID: d.newID(), To: uint32(n)}}}, segments)
}

func TestHotGroupCountsOnceHoweverOftenItIsWritten(t *testing.T) {
	eachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		r := newRig(t)
		h := startHot(t, client)
		g := hotGroup(t, r, 1000)
		for range 3 {
			h.count(g)
		}
		r.eventually("hot counts", func() bool { return hotSum(t, client, "example.com", schema.HotViews) >= 1000 && len(h.minutes) == 0 })
		time.Sleep(50 * time.Millisecond)
		if got := hotSum(t, client, "example.com", schema.HotViews); got != 1000 {
			t.Errorf("%d views, want 1000", got)
		}
		minute := g.segments[0].Created.Unix() / 60
		keys, err := client.HLen(t.Context(), schema.HotMinuteKey("example.com", minute)).Result()
		if err != nil || keys > schema.HotFieldLimit {
			t.Errorf("%d fields, %v, want at most %d", keys, err, schema.HotFieldLimit)
		}
	})
}

func TestHotOutlivesRedis(t *testing.T) {
	r := newRig(t)
	server := redistest.Start(t)
	client := server.Client()
	h := startHot(t, client)
	for name, fault := range map[string]struct{ begin, end func() }{
		"killed": {server.Kill, server.Restart},
		"paused": {server.Pause, server.Resume},
		"full": {
			func() { client.ConfigSet(t.Context(), "maxmemory", "1") },
			func() { client.ConfigSet(t.Context(), "maxmemory", "0") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			client.FlushAll(t.Context())
			fault.begin()
			h.count(hotGroup(t, r, 10))
			r.eventually("a complaint", func() bool { return h.Ready() != nil })
			fault.end()
			r.eventually("recovery", func() bool { return h.Ready() == nil })
			if got := hotSum(t, client, "example.com", schema.HotViews); got != 10 {
				t.Errorf("%d views, want 10", got)
			}
		})
	}
}

// TestHotBatchThatComesAfterItsRepair: Redis was emptied before it took a batch which the tables have. The reconciler brings the batch
// back with its minute; when it comes itself at last, it is not added once more.
func TestHotBatchThatComesAfterItsRepair(t *testing.T) {
	eachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		r := newRig(t)
		at := time.Now().Add(-10 * time.Minute).Truncate(time.Minute)
		for range 30 {
			e := r.event()
			e.TS = at.UnixMilli()
			r.count(e)
		}
		r.seal()
		h, err := NewHot(HotConfig{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		r.deliver(func(c *Config) { c.Hot = h }) // which does not run: its minutes wait
		c, err := NewReconciler(ReconcilerConfig{Client: client, Conn: r.conn})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.round(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := hotSum(t, client, "example.com", schema.HotViews); got != 30 {
			t.Fatalf("%d views after the repair, want 30", got)
		}
		h.take(<-h.minutes)
		if err := h.flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := hotSum(t, client, "example.com", schema.HotViews); got != 30 {
			t.Errorf("%d views when the batch came late, want 30", got)
		}
		pages := client.HGetAll(t.Context(), schema.HotPagesKey("example.com", at.Unix()/60)).Val()
		for path, n := range r.want {
			if pages[path] != fmt.Sprint(n) {
				t.Errorf("page %s has %s views, want %d", path, pages[path], n)
			}
		}
		requireExpiry(t, client)
	})
}

// TestHotPagesSayWhatIsLeftOut: of too many pages of a minute the first stay, in one batch and over several.
func TestHotPagesSayWhatIsLeftOut(t *testing.T) {
	eachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		h, err := NewHot(HotConfig{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		minute := time.Now().Unix() / 60
		write := func(batch byte, from, to int) {
			t.Helper()
			m := newHotMinute(hotPart{siteMinute{"example.com", minute}, ulid.ULID{batch}})
			for i := from; i < to; i++ {
				m.add(&schema.Event{Name: schema.PageView, N: 1, PathKey: fmt.Sprintf("/%d", i)})
			}
			if failed, err := h.write(t.Context(), []*hotMinute{m}); err != nil || len(failed) > 0 {
				t.Fatal(err)
			}
		}
		key := schema.HotPagesKey("example.com", minute)
		write(1, 0, schema.HotPageLimit-10)
		if client.HExists(t.Context(), key, schema.HotCut).Val() {
			t.Error("said to be cut while all pages are in")
		}
		write(2, 0, schema.HotPageLimit+10)
		if !client.HExists(t.Context(), key, schema.HotCut).Val() {
			t.Error("pages are left out, and nothing says so")
		}
		if n := client.HLen(t.Context(), key).Val(); n > schema.HotPageLimit+2 {
			t.Errorf("%d fields, want at most %d", n, schema.HotPageLimit+2)
		}
		if got := client.HGet(t.Context(), key, "/0").Val(); got != "2" {
			t.Errorf("a page that was in before has %s views, want 2", got)
		}
	})
}

// TestReconcilerFillsAnEmptiedRedis: FLUSHALL takes the counts, and the reconciler brings them back, marks them and says when they can be read.
func TestReconcilerFillsAnEmptiedRedis(t *testing.T) {
	eachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		r := newRig(t)
		h := startHot(t, client)
		at := time.Now().Add(-10 * time.Minute).Truncate(time.Minute)
		var want int64
		for i := range 40 {
			e := r.event()
			e.TS = at.UnixMilli() + int64(i)*1000
			e.Visitor = uint64(1 + i%7)
			r.count(e)
			want += e.N
		}
		r.seal()
		r.deliver(func(c *Config) { c.Hot = h })
		r.eventually("hot counts", func() bool { return hotSum(t, client, "example.com", schema.HotViews) == want })

		c, err := NewReconciler(ReconcilerConfig{Client: client, Conn: r.conn, Sites: func() []string { return []string{"quiet.example"} }})
		if err != nil {
			t.Fatal(err)
		}
		round := func() {
			t.Helper()
			if err := c.round(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		round()
		if from, err := client.Get(t.Context(), schema.HotCompleteKey("quiet.example")).Int64(); err != nil || from != 0 {
			t.Errorf("a quiet site is complete from %d, %v, want 0", from, err)
		}
		client.FlushAll(t.Context())
		round()
		if got := hotSum(t, client, "example.com", schema.HotViews); got != want {
			t.Errorf("%d views after the refill, want %d", got, want)
		}
		from, err := client.Get(t.Context(), schema.HotCompleteKey("example.com")).Int64()
		if now := time.Now().Unix() / 60; err != nil || from <= now || from > now+hotSettle {
			t.Errorf("complete from minute %d, %v, want one of the next %d after %d", from, err, hotSettle, now)
		}
		if n := client.PFCount(t.Context(), schema.HotVisitorsKey("example.com", at.Unix()/60)).Val(); n != 7 {
			t.Errorf("%d visitors in that minute, want 7", n)
		}
		requireExpiry(t, client)

		// A count that is off is put right when it is off twice alike: once may be an event in flight.
		key := schema.HotMinuteKey("example.com", at.Unix()/60)
		client.HIncrBy(t.Context(), key, schema.HotViews, 5)
		round()
		if got := hotSum(t, client, "example.com", schema.HotViews); got != want+5 {
			t.Errorf("%d views after one look, want %d as before", got, want+5)
		}
		round()
		if got := hotSum(t, client, "example.com", schema.HotViews); got != want {
			t.Errorf("%d views after two looks, want %d", got, want)
		}
	})
}

func TestHotArgumentsAreBounded(t *testing.T) {
	m := newHotMinute(hotPart{})
	for i := range 50_000 {
		e := schema.Event{Name: schema.PageView, N: 1, PathKey: strings.Repeat("x", i%50) + fmt.Sprint(i), Visitor: uint64(i + 1)}
		m.add(&e)
	}
	if m.views != 50_000 {
		t.Errorf("%d views, want all", m.views)
	}
	if got, most := len(m.args()), 9+2*schema.HotFieldLimit+2*schema.HotPageLimit+hotVisitors; got > most {
		t.Errorf("%d arguments, want at most %d", got, most)
	}
	if m.pageFlag() != schema.HotCut {
		t.Error("pages are left out, and nothing says so")
	}
}
