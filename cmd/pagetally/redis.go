package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Values of Settings.Redis that are no URL.
const (
	embeddedRedis = "embedded"
	noRedis       = "off"
)

// hotStore is the Redis that holds the hot counts: a server, or one inside this process.
type hotStore struct {
	redis.UniversalClient
	inside *miniredis.Miniredis // nil for a server
}

// openRedis returns nil when there shall be none. It connects to a server when first used.
func openRedis(s *Settings, log *slog.Logger) (*hotStore, error) {
	redis.SetLogger(quietRedis{log})
	switch s.Redis {
	case noRedis:
		return nil, nil
	case embeddedRedis:
		// On loopback and with a password, because its connections in memory have no buffer: a pipeline on them waits for itself.
		inside, password := miniredis.NewMiniRedis(), rand.Text()
		inside.RequireAuth(password)
		if err := inside.StartAddr("127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("start the embedded Redis: %w", err)
		}
		return &hotStore{redis.NewClient(&redis.Options{
			Addr: inside.Addr(), Password: password, ContextTimeoutEnabled: true, PoolSize: 8,
		}), inside}, nil
	}
	open, err := parseRedis(s.Redis)
	if err != nil {
		return nil, fmt.Errorf("--redis: %w", err)
	}
	return &hotStore{open(), nil}, nil
}

// Time-outs of a Redis server: it is asked for what is wanted at once, and ClickHouse knows the same a little later.
const (
	redisDial = time.Second
	redisCall = time.Second
)

// parseRedis reads a URL and returns what makes a client of it: redis:// or rediss:// for one server; with ?master_name=NAME its
// sentinels, with ?addr=HOST:PORT (as often as wanted) a cluster's nodes.
func parseRedis(address string) (open func() redis.UniversalClient, err error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "redis" && u.Scheme != "rediss") || u.Host == "" {
		return nil, errors.New("want 'embedded', 'off' or a URL that begins with redis:// or rediss://") // the URL may hold a password
	}
	switch {
	case u.Query().Has("master_name"):
		o, err := redis.ParseFailoverURL(address)
		if err != nil {
			return nil, err
		}
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled = redisDial, redisCall, redisCall, true
		return func() redis.UniversalClient { return redis.NewFailoverClient(o) }, nil
	case u.Query().Has("addr"):
		o, err := redis.ParseClusterURL(address)
		if err != nil {
			return nil, err
		}
		o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled = redisDial, redisCall, redisCall, true
		return func() redis.UniversalClient { return redis.NewClusterClient(o) }, nil
	}
	o, err := redis.ParseURL(address)
	if err != nil {
		return nil, err
	}
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.ContextTimeoutEnabled = redisDial, redisCall, redisCall, true
	return func() redis.UniversalClient { return redis.NewClient(o) }, nil
}

// Run lets the keys of the Redis inside expire, which do so only when told that time has passed, until ctx ends.
func (r *hotStore) Run(ctx context.Context) error {
	if r.inside == nil {
		<-ctx.Done()
		return nil
	}
	const every = 5 * time.Second
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			r.inside.FastForward(now.Sub(last))
			last = now
		}
	}
}

// Close ends the connections, and the Redis inside.
func (r *hotStore) Close() error {
	if r == nil {
		return nil
	}
	err := r.UniversalClient.Close()
	if r.inside != nil {
		r.inside.Close()
	}
	return err
}

// quietRedis takes what the client library logs of each failed call. What that means is logged by those who called, once.
type quietRedis struct{ log *slog.Logger }

// Printf implements the library's logger.
func (q quietRedis) Printf(ctx context.Context, format string, v ...any) {
	q.log.DebugContext(ctx, "redis client: "+fmt.Sprintf(format, v...))
}
