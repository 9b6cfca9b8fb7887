package main

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pagetally/pagetally/aggregate"
)

// claims are who owns which event id, in a Redis that other nodes use as well.
type claims struct {
	*aggregate.RedisClaims
	log   *slog.Logger
	unfit atomic.Pointer[error] // why claims in this Redis would not be safe
}

func newClaims(s *Settings, hot *hotStore, db *database, log *slog.Logger, metrics prometheus.Registerer) (*claims, error) {
	r, err := aggregate.NewRedisClaims(aggregate.RedisClaimsConfig{
		Client: hot, Conn: db, Policy: aggregate.ClaimsPolicy(s.Claims), Window: s.ClaimWindow, Log: log, Metrics: metrics,
	})
	return &claims{RedisClaims: r, log: log}, err
}

// fitEvery is how often Redis is asked whether it may evict keys: its settings change while it runs.
const fitEvery = time.Minute

// Run looks every now and then whether Redis is fit for claims.
func (c *claims) Run(ctx context.Context) error {
	ticker := time.NewTicker(fitEvery)
	defer ticker.Stop()
	for {
		c.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (c *claims) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, redisDial+redisCall)
	defer cancel()
	err := c.Check(ctx)
	if ctx.Err() != nil {
		return
	}
	was := c.unfit.Swap(&err)
	switch said := was != nil && *was != nil; {
	case err != nil && !said:
		c.log.Warn("redis is not fit for claims", "error", err)
	case err == nil && said:
		c.log.Info("redis is fit for claims again")
	}
}

// Ready is nil while Redis can be asked for claims and keeps them.
func (c *claims) Ready() error {
	if unfit := c.unfit.Load(); unfit != nil && *unfit != nil {
		return *unfit
	}
	return c.RedisClaims.Ready()
}
