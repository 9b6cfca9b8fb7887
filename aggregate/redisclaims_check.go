package aggregate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// ErrRedisUnfit says that claims in this Redis would not be safe: it may evict them, or is too old.
var ErrRedisUnfit = errors.New("unfit for claims")

// leastRedis is the first version that can tell in one step who held a key before.
const leastRedis = 7

// Check asks every master of Redis whether claims are safe with it: ErrRedisUnfit if its version is under 7 or it may evict keys. It
// may be called from any goroutine.
func (r *RedisClaims) Check(ctx context.Context) error {
	if r.cfg.Embedded {
		return nil
	}
	return CheckRedis(ctx, r.client)
}

// CheckRedis asks every master behind client whether claims are safe there: ErrRedisUnfit if its version is under 7 or it may evict keys.
func CheckRedis(ctx context.Context, client redis.UniversalClient) error {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return checkRedis(ctx, c) })
	}
	return checkRedis(ctx, client)
}

func checkRedis(ctx context.Context, c redis.Cmdable) error {
	server, err := c.Info(ctx, "server").Result()
	if err != nil {
		return fmt.Errorf("ask Redis about itself: %w", err)
	}
	memory, err := c.Info(ctx, "memory").Result()
	if err != nil {
		return fmt.Errorf("ask Redis about its memory: %w", err)
	}
	version := infoField(server, "redis_version")
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < leastRedis {
		return fmt.Errorf("%w: the version of Redis is %q, needed is %d", ErrRedisUnfit, version, leastRedis)
	}
	if policy := infoField(memory, "maxmemory_policy"); policy != "noeviction" {
		return fmt.Errorf("%w: the maxmemory-policy of Redis is %q, needed is noeviction", ErrRedisUnfit, policy)
	}
	return nil
}

// infoField finds a line NAME:VALUE of an INFO answer.
func infoField(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

type claimsMetrics struct {
	asked    prometheus.Counter
	others   prometheus.Counter
	fallback prometheus.Counter
	failures prometheus.Counter
	outage   prometheus.Counter
	rebuilds *prometheus.CounterVec
	up       prometheus.Gauge
	seconds  prometheus.Histogram
}

func newClaimsMetrics(r prometheus.Registerer) *claimsMetrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &claimsMetrics{
		asked:    counter("pagetally_claims_asked_total", "Event ids that were asked for an owner."),
		others:   counter("pagetally_claims_held_by_others_total", "Event ids that another event owned already."),
		fallback: counter("pagetally_claims_fallback_lookups_total", "Event ids looked up in ClickHouse because Redis could not be asked."),
		failures: counter("pagetally_claims_failures_total", "Calls to Redis for claims that failed."),
		outage:   counter("pagetally_claims_outage_seconds_total", "Seconds in which Redis could not be asked for claims."),
		rebuilds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pagetally_claims_rebuilds_total", Help: "Times Redis was filled with claims after an outage: whole, or the changes made meanwhile.",
		}, []string{"kind"}),
		up: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pagetally_claims_up", Help: "1 while claims are made in Redis, 0 while they do without.",
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pagetally_claims_call_seconds", Help: "Duration of a pipeline of claims.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 12),
		}),
	}
	if r != nil {
		r.MustRegister(m.asked, m.others, m.fallback, m.failures, m.outage, m.rebuilds, m.up, m.seconds)
	}
	return m
}
