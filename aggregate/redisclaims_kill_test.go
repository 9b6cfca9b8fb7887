package aggregate

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pagetally/pagetally/aggregate/redistest"
)

// TestKilledAtEveryStepWithClaimsInRedis kills the delivering process at each of its steps, and Redis is struck between the one that
// dies and those that recover, while ids of earlier rounds are sent again.
func TestKilledAtEveryStepWithClaimsInRedis(t *testing.T) {
	r := newRig(t)
	r.close()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "everysec")
	r.redis = server.Addr()
	nothing := func() {}
	faults := []struct{ begin, end func() }{
		{nothing, nothing},
		{server.Pause, server.Resume},
		{server.Kill, server.Restart},
		{func() { server.Client().FlushAll(t.Context()) }, nothing},
		{func() { server.Stop(); server.Restart() }, nothing},
	}
	var accepted int64
	for killAt, struck := 1, 0; ; killAt++ {
		accepted += r.fillJournal(killAt - 1)
		fault := faults[struck%len(faults)]
		struck++
		killed := r.child(killAt)
		fault.begin()
		r.child(1 + killAt%7)
		if struck%2 == 0 {
			r.child(0)
		}
		fault.end()
		r.child(0)
		r.requireExact()
		r.requireBalanced(accepted)
		if t.Failed() {
			t.Fatalf("after a kill at step %d and fault %d", killAt, struck%len(faults))
		}
		if !killed {
			break
		}
	}
}

// TestFailover moves the clients to a replica that lacks the newest claims, as an asynchronous one does, and back again to the former
// master, which then follows the new one.
func TestFailover(t *testing.T) {
	s := &resent{rig: newRig(t)}
	first, second := redistest.Start(t, "--repl-diskless-sync-delay", "0"), redistest.Start(t, "--repl-diskless-sync-delay", "0")
	ctx := t.Context()
	follow := func(replica, master *redistest.Server) {
		t.Helper()
		host, port := master.HostPort()
		if err := replica.Client().ReplicaOf(ctx, host, port).Err(); err != nil {
			t.Fatal(err)
		}
		s.eventually("the replica", func() bool {
			return infoField(replica.Client().Info(ctx, "replication").Val(), "master_link_status") == "up"
		})
	}
	promote := func(replica *redistest.Server) {
		t.Helper()
		if err := replica.Client().ReplicaOf(ctx, "NO", "ONE").Err(); err != nil {
			t.Fatal(err)
		}
	}
	w := newWire(t, first.Addr())
	client := redis.NewClient(&redis.Options{Addr: w.listener.Addr().String(), MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	claims := s.redisClaims(client)
	d, stop := s.start(func(c *Config) { c.Claims = claims })
	defer stop()
	turn := func(to *redistest.Server) {
		w.target.Store(to.Addr())
		w.cut()
		for range 3 {
			s.round()
			s.delivered(d)
		}
		s.eventually("claims in Redis", func() bool { return claims.Ready() == nil })
		s.round()
		s.delivered(d)
		if n := len(to.Client().Keys(ctx, "pagetally{c?}?*").Val()); n != s.serial {
			t.Errorf("%d claims in Redis, want %d", n, s.serial)
		}
	}
	s.round()
	s.delivered(d)
	follow(second, first)
	promote(second) // what comes now, the second does not hear of
	s.round()
	s.delivered(d)
	turn(second)
	follow(first, second)
	promote(first)
	s.round()
	s.delivered(d)
	turn(first)
	s.requireExact()
	s.requireBalanced(s.rows)
}
