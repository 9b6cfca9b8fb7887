package aggregate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"github.com/pagetally/pagetally/aggregate/redistest"
	"github.com/pagetally/pagetally/ingest/journal"
)

// redisClaims makes claims for the rig's deliveries.
func (r *rig) redisClaims(client redis.UniversalClient, change ...func(*RedisClaimsConfig)) *RedisClaims {
	r.t.Helper()
	cfg := RedisClaimsConfig{Client: client, Conn: r.conn}
	for _, f := range change {
		f(&cfg)
	}
	claims, err := NewRedisClaims(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return claims
}

// attached are claims that were given to a Delivery, which does not run.
func (r *rig) attached(claims *RedisClaims) *Delivery {
	r.t.Helper()
	d, err := New(Config{Conn: r.conn, Journal: r.journal, Node: r.journal.Node(), Claims: claims})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := claims.load(); err != nil {
		r.t.Fatal(err)
	}
	return d
}

func embedded(t testing.TB) func(*RedisClaimsConfig) {
	return func(c *RedisClaimsConfig) { c.Embedded = strings.Contains(t.Name(), "/embedded") }
}

// claimOf makes a claim of the row index of a segment for an id.
func claimOf(id byte, segment ulid.ULID, index uint32) Claim {
	return Claim{ID: [16]byte{id, 0, 0xff, id}, Owner: Owner{segment, index}, Content: uint64(id) << 56, ReceivedAt: time.Now().UnixMilli()}
}

// valueOf reads a counter or gauge.
func valueOf(m prometheus.Metric) float64 {
	var out dto.Metric
	if err := m.Write(&out); err != nil {
		panic(err)
	}
	return out.GetCounter().GetValue() + out.GetGauge().GetValue()
}

// TestClaimsAgree holds every implementation to what the interface says.
func TestClaimsAgree(t *testing.T) {
	test := func(t *testing.T, make func(r *rig) Claims) {
		r := newRig(t)
		claims := make(r)
		ctx := t.Context()
		a, b := r.journal.NewID(), r.journal.NewID()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		requireHolders := func(asked, want []Claim) {
			t.Helper()
			got, err := claims.Claim(ctx, asked)
			must(err)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("holders (-want +got):\n%s", diff)
			}
		}
		first := []Claim{claimOf(0x01, a, 0), claimOf(0x31, a, 1), claimOf(0xf1, a, 1<<32-1)}
		requireHolders(first, first)
		requireHolders(first, first) // asking again is safe
		second := []Claim{claimOf(0x01, b, 0), claimOf(0x32, b, 1), claimOf(0xf1, b, 2)}
		requireHolders(second, []Claim{first[0], second[1], first[2]})

		must(claims.Assert(ctx, second[:1]))
		requireHolders(first, []Claim{second[0], first[1], first[2]})
		must(claims.Release(ctx, []Claim{first[0], first[1]})) // the first of which does not hold its id any more
		third := []Claim{claimOf(0x01, b, 7), claimOf(0x31, b, 8)}
		requireHolders(third, []Claim{second[0], third[1]})
		must(claims.Assert(ctx, nil))
		must(claims.Release(ctx, nil))
		requireHolders([]Claim{}, []Claim{})
	}
	t.Run("memory", func(t *testing.T) {
		test(t, func(r *rig) Claims { return NewMemoryClaims(r.conn, 48*time.Hour, 100) })
	})
	eachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		test(t, func(r *rig) Claims {
			claims := r.redisClaims(client, embedded(t))
			r.attached(claims)
			return claims
		})
		keys := client.Keys(t.Context(), "pagetally{c?}?*").Val()
		if len(keys) != 4 {
			t.Errorf("%d claims in Redis, want 4", len(keys))
		}
		for _, key := range keys {
			if ttl := client.PTTL(t.Context(), key).Val(); ttl < 71*time.Hour || ttl > 72*time.Hour {
				t.Errorf("a claim lives for %v, want 72h", ttl)
			}
		}
	})
	t.Run("cluster", func(t *testing.T) {
		server := redistest.Start(t, "--cluster-enabled", "yes")
		if err := server.Client().ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
			t.Fatal(err)
		}
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}, ContextTimeoutEnabled: true})
		t.Cleanup(func() { _ = client.Close() })
		for client.ClusterInfo(t.Context()).Err() != nil || !strings.Contains(client.ClusterInfo(t.Context()).Val(), "cluster_state:ok") {
			time.Sleep(20 * time.Millisecond)
		}
		test(t, func(r *rig) Claims {
			claims := r.redisClaims(client)
			r.attached(claims)
			if err := claims.Check(t.Context()); err != nil {
				t.Error(err)
			}
			return claims
		})
	})
}

func TestClaimValueRoundTrip(t *testing.T) {
	want := claimOf(0xfe, ulid.MustParse("01JQZ8Y1Z5M3K7N9P2R4T6V8X0"), 1<<32-1)
	got, err := decodeClaim(want.ID, encodeClaim(want))
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
	for n := range claimBytes {
		if _, err := decodeClaim(want.ID, encodeClaim(want)[:n]); !errors.Is(err, errClaimValue) {
			t.Errorf("%d bytes: %v, want %v", n, err, errClaimValue)
		}
	}
}

// resent are events with ids that are sent again and again.
type resent struct {
	*rig
	serial int
	rows   int64
}

// round journals new events with and without ids, and once more every event with an id of the rounds before.
func (s *resent) round() {
	s.t.Helper()
	for range 5 {
		s.count(s.event())
		s.rows++
	}
	for i := range s.serial + 5 {
		e := s.event()
		e.EventID, e.Path, e.Visitor = fmt.Sprint("resent-", i), fmt.Sprint("/id/", i), uint64(1+i)
		if i < s.serial {
			s.append(e)
		} else {
			s.count(e)
		}
		s.append(e)
		s.rows += 2
	}
	s.serial += 5
	s.seal()
}

func (s *resent) delivered(d *Delivery) {
	s.t.Helper()
	s.eventually("delivery", func() bool { return s.journal.Stats().SealedSegments == 0 && d.Pending() == 0 })
}

// TestClaimsOutliveRedis: whatever becomes of Redis, new ids count once and used ones never, before, while and after, and delivery
// does not stop.
func TestClaimsOutliveRedis(t *testing.T) {
	for name, fault := range map[string]struct {
		args       []string
		begin, end func(t *testing.T, s *redistest.Server)
		reachable  bool // Redis can be asked while it is at fault
	}{
		"killed": {
			begin: func(t *testing.T, s *redistest.Server) { s.Kill() },
			end:   func(t *testing.T, s *redistest.Server) { s.Restart() },
		},
		"killed with a log": {
			args:  []string{"--appendonly", "yes", "--appendfsync", "everysec"},
			begin: func(t *testing.T, s *redistest.Server) { s.Kill() },
			end:   func(t *testing.T, s *redistest.Server) { s.Restart() },
		},
		"restarted at once": {
			args:      []string{"--appendonly", "yes"},
			begin:     func(t *testing.T, s *redistest.Server) { s.Kill(); s.Restart() },
			end:       func(t *testing.T, s *redistest.Server) {},
			reachable: true,
		},
		"emptied": {
			begin:     func(t *testing.T, s *redistest.Server) { s.Client().FlushAll(t.Context()) },
			end:       func(t *testing.T, s *redistest.Server) {},
			reachable: true,
		},
		"paused": {
			begin: func(t *testing.T, s *redistest.Server) { s.Pause() },
			end:   func(t *testing.T, s *redistest.Server) { s.Resume() },
		},
		"full": {
			begin: func(t *testing.T, s *redistest.Server) { s.Client().ConfigSet(t.Context(), "maxmemory", "1") },
			end:   func(t *testing.T, s *redistest.Server) { s.Client().ConfigSet(t.Context(), "maxmemory", "0") },
		},
		"read-only": {
			// A replica of nobody keeps what it has.
			begin: func(t *testing.T, s *redistest.Server) { s.Client().ReplicaOf(t.Context(), "127.0.0.1", "1") },
			end:   func(t *testing.T, s *redistest.Server) { s.Client().ReplicaOf(t.Context(), "NO", "ONE") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &resent{rig: newRig(t)}
			server := redistest.Start(t, fault.args...)
			claims := s.redisClaims(server.Client())
			d, stop := s.start(func(c *Config) { c.Claims = claims })
			defer stop()
			s.round()
			s.delivered(d)
			s.round()
			s.delivered(d)
			fault.begin(t, server)
			for range 3 {
				s.round()
				s.delivered(d)
			}
			if !fault.reachable && claims.Ready() == nil {
				t.Error("claims do not complain of Redis")
			}
			fault.end(t, server)
			s.round()
			s.eventually("claims in Redis", func() bool { return claims.Ready() == nil })
			for range 2 {
				s.round()
				s.delivered(d)
			}
			s.requireExact()
			s.requireBalanced(s.rows)
			if n := len(server.Client().Keys(t.Context(), "pagetally{c?}?*").Val()); n != s.serial {
				t.Errorf("%d claims in Redis, want %d", n, s.serial)
			}
			if outage := valueOf(claims.metrics.outage); !fault.reachable && outage < 0.1 {
				t.Errorf("%v s of outage", outage)
			}
		})
	}
}

// TestRedisThatSleptThroughAProcess: a process claims without Redis and ends. The next finds Redis as it was before and does not believe it.
func TestRedisThatSleptThroughAProcess(t *testing.T) {
	s := &resent{rig: newRig(t)}
	server := redistest.Start(t)
	with := func(c *Config) { c.Claims = s.redisClaims(server.Client()) }
	s.round()
	s.deliver(with)
	server.Pause()
	s.round()
	s.deliver(with)
	server.Resume()
	s.round()
	s.deliver(with)
	s.requireExact()

	// The same with a process that did not know of Redis.
	s.round()
	s.deliver()
	s.round()
	s.deliver(with)
	s.requireExact()
	s.requireBalanced(s.rows)
}

// TestProcessGoesOnWithItsEpoch: a new process does not write everything anew to a Redis that holds it.
func TestProcessGoesOnWithItsEpoch(t *testing.T) {
	s := &resent{rig: newRig(t)}
	client := redistest.Start(t).Client()
	for process, want := range []string{"whole", "changes", "changes"} {
		claims := s.redisClaims(client)
		s.round()
		s.deliver(func(c *Config) { c.Claims = claims })
		if got := valueOf(claims.metrics.rebuilds.WithLabelValues(want)); got != 1 {
			t.Errorf("process %d: %v rebuilds of kind %q, want 1", process, got, want)
		}
	}
	s.requireExact()
}

func TestWaitPolicyParksOnlyRowsWithIDs(t *testing.T) {
	s := &resent{rig: newRig(t)}
	server := redistest.Start(t)
	claims := s.redisClaims(server.Client(), func(c *RedisClaimsConfig) { c.Policy = ClaimsWait })
	d, stop := s.start(func(c *Config) { c.Claims, c.ParkedRetry = claims, 100*time.Millisecond })
	defer stop()
	s.round()
	s.delivered(d)
	server.Pause()
	var stored uint64
	s.scan(`SELECT count() FROM events`, &stored)
	for range 3 {
		s.round()
		s.eventually("rows without an id", func() bool {
			var n uint64
			s.scan(`SELECT count() FROM events`, &n)
			return n == stored+5
		})
		stored += 5
	}
	if n := len(s.list(journal.StateParked)); n == 0 {
		t.Error("no segment is parked")
	}
	server.Resume()
	s.eventually("parked rows", func() bool {
		return s.journal.Stats().SealedSegments == 0 && len(s.list(journal.StateParked)) == 0
	})
	s.round()
	s.delivered(d)
	s.requireExact()
	s.requireBalanced(s.rows)
}

// TestClaimsOfADeadProcessAreReleased: under the policy wait a claim reaches Redis, its answer does not come back, the row is parked and
// the process ends before it could release the claim. The row must not be taken for a copy of itself.
func TestClaimsOfADeadProcessAreReleased(t *testing.T) {
	s := &resent{rig: newRig(t)}
	server := redistest.Start(t)
	w := newWire(t, server.Addr())
	wait := func(c *RedisClaimsConfig) { c.Policy = ClaimsWait }
	far := redis.NewClient(&redis.Options{Addr: w.listener.Addr().String(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = far.Close() })
	s.round()
	s.deliver(func(c *Config) { c.Claims = s.redisClaims(far, wait) })
	claims := s.redisClaims(far, wait)
	_, stop := s.start(func(c *Config) { c.Claims = claims })
	s.eventually("claims", func() bool { return valueOf(claims.metrics.up) == 1 })
	w.deaf.Store(true)
	s.round()
	s.eventually("parked rows", func() bool { return len(s.list(journal.StateParked)) > 0 })
	stop()
	if n := len(server.Client().Keys(t.Context(), "pagetally{c?}?*").Val()); n != s.serial {
		t.Fatalf("%d claims in Redis, want %d: the answer was lost, not the call", n, s.serial)
	}
	d, stop := s.start(func(c *Config) { c.Claims, c.ParkedRetry = s.redisClaims(server.Client(), wait), 100*time.Millisecond })
	defer stop()
	s.eventually("parked rows", func() bool { return len(s.list(journal.StateParked)) == 0 })
	s.delivered(d)
	s.requireExact()
	s.requireBalanced(s.rows)
}

// TestFlushDuringRebuild: what Redis loses between two steps of a rebuild is not taken for written.
func TestFlushDuringRebuild(t *testing.T) {
	eachRedis(t, func(t *testing.T, client redis.UniversalClient) {
		s := &resent{rig: newRig(t)}
		s.round()
		s.deliver()
		claims := s.redisClaims(client, embedded(t))
		s.attached(claims)
		for steps := 1; ; steps++ {
			client.FlushAll(t.Context())
			if err := claims.load(); err != nil {
				t.Fatal(err)
			}
			for range steps {
				if _, err := claims.step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			client.FlushAll(t.Context())
			done, err := claims.step(t.Context())
			if !errors.Is(err, errNotReady) && claims.build.begun && !done {
				t.Fatalf("after %d steps and a flush: %t, %v", steps, done, err)
			}
			if claims.filed {
				break // it was done before the flush
			}
			claims.down(t.Context(), err)
			if !claims.advance(t.Context(), time.Minute) {
				t.Fatal("no way back")
			}
			if n := len(client.Keys(t.Context(), "pagetally{c?}?*").Val()); n != s.serial {
				t.Fatalf("after %d steps: %d claims in Redis, want %d", steps, n, s.serial)
			}
			claims.up = false
			if steps > 10 {
				t.Fatal("the rebuild does not end")
			}
			if err := claims.giveUpEpoch(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestOldSnapshotIsNotBelieved: a server that loaded what it had written some time ago still holds the node's epoch, and lacks claims.
func TestOldSnapshotIsNotBelieved(t *testing.T) {
	r := newRig(t)
	server := redistest.Start(t)
	claims := r.redisClaims(server.Client())
	d := r.attached(claims)
	segment := r.journal.NewID()
	d.undelivered[segment] = true
	for i := range byte(4) {
		if _, err := claims.Claim(t.Context(), []Claim{claimOf(i, segment, uint32(i))}); err != nil {
			t.Fatal(err)
		}
		switch i {
		case 0:
			if err := server.Client().Save(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		case 2:
			server.Kill()
			server.Restart()
		}
	}
	r.eventually("claims in Redis", func() bool { return claims.up || claims.advance(t.Context(), time.Second) })
	for i := range byte(4) {
		if server.Client().Exists(t.Context(), claimKey(claimOf(i, segment, 0).ID)).Val() != 1 {
			t.Errorf("claim %d is not in Redis", i)
		}
	}
}

func TestBreakerLeavesRedisAlone(t *testing.T) {
	r := newRig(t)
	server := redistest.Start(t)
	claims := r.redisClaims(server.Client())
	r.attached(claims)
	now := time.Now()
	claims.now = func() time.Time { return now }
	ask := func() {
		t.Helper()
		if _, err := claims.Claim(t.Context(), []Claim{claimOf(1, r.journal.NewID(), 0)}); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	server.Kill()
	var wait time.Duration
	for i := range 10 {
		ask()
		failed := valueOf(claims.metrics.failures)
		if failed != float64(i+1) {
			t.Fatalf("%v failures, want %d", failed, i+1)
		}
		ask() // at once: not even tried
		if got := valueOf(claims.metrics.failures); got != failed {
			t.Fatal("Redis was tried again at once")
		}
		wait = claims.build.retry.Sub(now)
		if wait < claimsBackoffFirst || wait > claimsBackoffMost {
			t.Fatalf("back-off of %v", wait)
		}
		now = claims.build.retry
	}
	if wait != claimsBackoffMost {
		t.Errorf("back-off of %v after 10 failures, want %v", wait, claimsBackoffMost)
	}
}

// TestManyChangesWithoutRedis: an outage longer than is remembered ends in writing everything.
func TestManyChangesWithoutRedis(t *testing.T) {
	r := newRig(t)
	server := redistest.Start(t)
	claims := r.redisClaims(server.Client())
	d := r.attached(claims)
	segment := r.journal.NewID()
	d.undelivered[segment] = true
	if _, err := claims.Claim(t.Context(), []Claim{claimOf(1, segment, 0)}); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	released := Claim{ID: [16]byte{9}, Owner: Owner{segment, 99}}
	if err := claims.Assert(t.Context(), []Claim{released}); err != nil {
		t.Fatal(err)
	}
	claims.build.room = 10
	many := make([]Claim, 50)
	for i := range many {
		many[i] = Claim{ID: [16]byte{byte(i), 1}, Owner: Owner{segment, uint32(i)}}
	}
	for _, c := range many {
		if err := claims.Assert(t.Context(), []Claim{c}); err != nil {
			t.Fatal(err)
		}
	}
	if err := claims.Release(t.Context(), []Claim{released}); err != nil {
		t.Fatal(err)
	}
	server.Resume()
	r.eventually("claims in Redis", func() bool { return claims.advance(t.Context(), time.Second) })
	for _, c := range many {
		c.Owner.Segment = r.journal.NewID()
		holders, err := claims.Claim(t.Context(), []Claim{c})
		if err != nil || holders[0].Owner.Segment != segment {
			t.Fatalf("%v, %v, want the claim made without Redis", holders, err)
		}
	}
	if server.Client().Exists(t.Context(), claimKey(released.ID)).Val() != 0 {
		t.Error("a released claim is held")
	}
}

func TestUnfitRedis(t *testing.T) {
	server := redistest.Start(t)
	claims := newRig(t).redisClaims(server.Client())
	if err := claims.Check(t.Context()); err != nil {
		t.Error(err)
	}
	server.Client().ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru")
	if err := claims.Check(t.Context()); !errors.Is(err, ErrRedisUnfit) {
		t.Errorf("%v, want %v", err, ErrRedisUnfit)
	}
	server.Kill()
	if err := claims.Check(t.Context()); err == nil || errors.Is(err, ErrRedisUnfit) {
		t.Errorf("%v, want that it is away", err)
	}
}

func TestBadClaimsConfig(t *testing.T) {
	r := newRig(t)
	client := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { _ = client.Close() })
	for name, cfg := range map[string]RedisClaimsConfig{
		"no Redis":      {Conn: r.conn},
		"no ClickHouse": {Client: client},
		"short window":  {Client: client, Conn: r.conn, Window: 23 * time.Hour},
		"policy":        {Client: client, Conn: r.conn, Policy: "hope"},
	} {
		if _, err := NewRedisClaims(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// BenchmarkRedisClaims measures claiming free ids in full groups, and the memory that a claim takes.
func BenchmarkRedisClaims(b *testing.B) {
	r := newRig(b)
	client := redistest.Start(b).Client()
	claims := r.redisClaims(client, func(c *RedisClaimsConfig) { c.Timeout = time.Second })
	r.attached(claims)
	memory := func() float64 {
		text, err := client.Info(b.Context(), "memory").Result()
		if err != nil {
			b.Fatal(err)
		}
		var n float64
		if _, err := fmt.Sscan(infoField(text, "used_memory"), &n); err != nil {
			b.Fatal(err)
		}
		return n
	}
	if _, err := claims.Claim(context.Background(), nil); err != nil {
		b.Fatal(err)
	}
	before, claimed := memory(), 0
	asked := make([]Claim, 10_000)
	for b.Loop() {
		segment := r.journal.NewID()
		for i := range asked {
			for at := 0; at < 16; at += 8 {
				for n, bits := 0, r.random.Uint64(); n < 8; n, bits = n+1, bits>>8 {
					asked[i].ID[at+n] = byte(bits)
				}
			}
			asked[i].Owner, asked[i].ReceivedAt = Owner{segment, uint32(i)}, time.Now().UnixMilli()
		}
		if _, err := claims.Claim(context.Background(), asked); err != nil {
			b.Fatal(err)
		}
		claimed += len(asked)
	}
	if !claims.up {
		b.Fatal("Redis was not asked")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(claimed), "ns/claim")
	b.ReportMetric((memory()-before)/float64(claimed), "B/claim")
}

// TestTwoNodesCountAnIDOnce gives every id to both of two nodes that share Redis and ClickHouse, at the same time.
func TestTwoNodesCountAnIDOnce(t *testing.T) {
	one := newRig(t)
	client := redistest.Start(t).Client()
	two := &rig{t: t, server: one.server, conn: one.conn, db: one.db, dir: t.TempDir(), want: one.want, random: one.random}
	two.open(journal.Options{})
	t.Cleanup(func() { _ = two.journal.Close() })
	var nodes []*Delivery
	for _, r := range []*rig{one, two} {
		claims := r.redisClaims(client)
		d, stop := r.start(func(c *Config) { c.Claims, c.ParkedRetry = claims, 100*time.Millisecond })
		defer stop()
		r.eventually("claims in Redis", func() bool { return valueOf(claims.metrics.up) == 1 })
		nodes = append(nodes, d)
	}
	var rows int64
	for round := range 5 {
		for i := range 50 {
			e := one.event()
			e.EventID, e.Path = fmt.Sprint("shared-", round, "-", i), fmt.Sprint("/id/", round, "/", i)
			one.count(e)
			two.append(e)
			rows += 2
		}
		one.seal()
		two.seal()
	}
	for i, r := range []*rig{one, two} {
		r.eventually("delivery", func() bool {
			return r.journal.Stats().SealedSegments == 0 && nodes[i].Pending() == 0 && len(r.list(journal.StateParked)) == 0
		})
	}
	one.requireExact()
	one.requireBalanced(rows)
}

// BenchmarkEmbeddedClaims is BenchmarkRedisClaims with a Redis inside the process.
func BenchmarkEmbeddedClaims(b *testing.B) {
	r := newRig(b)
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(b).Addr()})
	defer func() { _ = client.Close() }()
	claims := r.redisClaims(client, func(c *RedisClaimsConfig) { c.Embedded, c.Timeout = true, 10*time.Second })
	r.attached(claims)
	asked := make([]Claim, 10_000)
	for b.Loop() {
		segment := r.journal.NewID()
		for i := range asked {
			for at := range asked[i].ID {
				asked[i].ID[at] = byte(r.random.Uint32())
			}
			asked[i].Owner = Owner{segment, uint32(i)}
		}
		if _, err := claims.Claim(context.Background(), asked); err != nil || !claims.up {
			b.Fatal(err, claims.up)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(asked)), "ns/claim")
}
