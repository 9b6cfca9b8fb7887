package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/pagetally/pagetally/aggregate"
	"github.com/pagetally/pagetally/aggregate/periods"
	"github.com/pagetally/pagetally/ingest"
	"github.com/pagetally/pagetally/ingest/geo"
	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/query"
	"github.com/pagetally/pagetally/schema"
)

// serveCommand is the server.
type serveCommand struct{}

// Run serves until ctx ends and then stops in order.
func (serveCommand) Run(ctx context.Context, s *Settings, out io.Writer) error {
	return run(ctx, s, newLogger(s, os.Stderr), out)
}

// run builds the parts in the order in which an event passes them, serves until ctx ends or a part fails, and stops them in
// reverse. It listens before ClickHouse is there: the journal takes events meanwhile.
func run(ctx context.Context, s *Settings, log *slog.Logger, out io.Writer) error {
	for _, name := range unknownEnv(os.Environ()) {
		log.Warn("environment variable is no setting", "name", name)
	}
	if err := os.MkdirAll(s.Data, 0o700); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	server, err := newHTTPServer(s.Listen, ingest.FiberConfig())
	if err != nil {
		return err
	}
	defer server.close()
	waiting, err := journal.Open(journal.Options{
		Dir: s.path(journalDir), SealAge: s.JournalSeal, SealBytes: segmentBytes, MaxBytes: int64(s.JournalMax), KeepFree: keepFree,
		Format: schema.EventFormat, Log: log, Metrics: metrics,
	})
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	defer closing(log, "journal", waiting.Close)
	db, err := openDatabase(s, log, metrics)
	if err != nil {
		return err
	}
	defer closing(log, "clickhouse", db.Close)
	hot, err := openRedis(s, log)
	if err != nil {
		return err
	}
	defer closing(log, "redis", hot.Close)
	parts, err := assemble(s, db, hot, waiting, server, log, metrics)
	if err != nil {
		return err
	}
	return parts.run(ctx, s, out)
}

// segmentBytes bounds a segment, which is the least that one INSERT holds: delivery needs some ten times as much memory for each
// of those in flight.
const segmentBytes = 5 << 20

// keepFree is what the journal leaves on its disk, on which by default the embedded engine lies too: it can take nothing over
// without room for a part and for its merges.
const keepFree = 256 << 20

// parts is what run put together.
type parts struct {
	db       *database
	journal  *journal.Journal
	salts    *ingest.Salts
	sites    *ingest.LiveSites
	keys     *ingest.Keys
	places   *geo.Database    // nil without --geo
	spam     *ingest.SpamList // nil without --spam-list
	redis    *hotStore        // nil with --redis=off, as the two that use it
	hot      *aggregate.Hot
	compare  *aggregate.Reconciler
	periods  *periods.Builder
	claims   *claims // nil without a Redis server: then this process keeps them
	delivery *aggregate.Delivery
	ingest   *ingest.Server
	reads    *query.Server
	server   *httpServer
	log      *slog.Logger
}

func assemble(s *Settings, db *database, hot *hotStore, waiting *journal.Journal, server *httpServer, log *slog.Logger, metrics *prometheus.Registry) (*parts, error) {
	p := &parts{db: db, redis: hot, journal: waiting, server: server, log: log}
	var err error
	if p.sites, err = s.liveSites(db, log); err != nil {
		return nil, err
	}
	proxies, err := s.proxies()
	if err != nil {
		return nil, err
	}
	if p.keys, err = ingest.OpenKeys(ingest.KeysConfig{Path: s.path(keysFile), Conn: db, Log: log}); err != nil {
		return nil, err
	}
	if p.salts, err = ingest.OpenSalts(ingest.SaltsConfig{Path: s.path(saltsFile), Conn: db, Node: waiting.Node(), Log: log}); err != nil {
		return nil, err
	}
	hotReads, err := p.assembleHot(metrics)
	if err != nil {
		return nil, err
	}
	delivers := deliveryConfig(s, db, waiting, log, metrics)
	delivers.Hot = p.hot
	if s.redisServer() {
		if p.claims, err = newClaims(s, hot, db, log, metrics); err != nil {
			return nil, err
		}
		delivers.Claims = p.claims.RedisClaims
	}
	pending := ingest.NewPending()
	delivers.Watch = pending
	if p.delivery, err = aggregate.New(delivers); err != nil {
		return nil, err
	}
	p.periods, err = periods.New(periods.Config{Conn: db, Sites: p.buildsOf, Log: log, Metrics: metrics})
	if err != nil {
		return nil, err
	}
	store, err := query.NewStore(query.StoreConfig{Conn: db, InFlight: p.delivery})
	if err != nil {
		return nil, err
	}
	tokenSecret, err := ingest.OpenSecret(s.path(tokenFile))
	if err != nil {
		return nil, err
	}
	enrich, err := s.openEnrichment(log, metrics)
	if err != nil {
		return nil, err
	}
	if p.places = enrich.places; p.places == nil {
		log.Info("countries are unknown: --geo names no database")
	}
	p.spam = enrich.spam
	receives := ingest.Config{
		Journal: waiting, Keys: p.keys, Salts: p.salts, Sites: p.sites.Sites, Delivery: p.delivery, Totals: store, Pending: pending,
		Node: waiting.Node(), Proxies: proxies, TrustLoopback: s.trustsLoopback(), TokenSecret: tokenSecret, Log: log, Metrics: metrics,
	}
	enrich.into(&receives)
	receiving, err := ingest.New(receives)
	if err != nil {
		return nil, err
	}
	reading, err := query.New(query.Config{
		Store: store, Hot: hotReads, Sites: readSites{p.sites.Sites}, Badges: readSites{p.sites.Sites}, Keys: readKeys{p.keys}, KeyRate: s.KeyRate, Loopback: loopback(s, proxies), Log: log, Metrics: metrics,
	})
	if err != nil {
		return nil, err
	}
	registerHealth(server.app, p.checks())
	registerMetrics(server.app, metrics)
	if s.Pprof {
		registerPprof(server.app)
	}
	p.ingest, p.reads = receiving, reading
	receiving.Register(server.app)
	reading.Register(server.app)
	return p, nil
}

// assembleHot makes what uses Redis; with --redis=off, nothing.
func (p *parts) assembleHot(metrics prometheus.Registerer) (reads *query.Hot, err error) {
	if p.redis == nil {
		return nil, nil
	}
	if p.hot, err = aggregate.NewHot(aggregate.HotConfig{Client: p.redis, Log: p.log, Metrics: metrics}); err != nil {
		return nil, err
	}
	p.compare, err = aggregate.NewReconciler(aggregate.ReconcilerConfig{
		Client: p.redis, Conn: p.db, Sites: p.domains, Log: p.log, Metrics: metrics,
	})
	return query.NewHot(p.redis), err
}

// buildsOf is what building closed periods needs to know of a site.
func (p *parts) buildsOf(domain string) (periods.Site, bool) {
	site, ok := p.sites.Lookup(domain)
	if !ok {
		return periods.Site{}, false
	}
	return periods.Site{Zone: site.Zone, Retention: site.Retention}, true
}

// domains lists the sites that are known by name.
func (p *parts) domains() []string {
	var domains []string
	for _, site := range p.sites.Known() {
		domains = append(domains, site.Domain)
	}
	return domains
}

// keepDelivered is how long delivered segments are kept against a server that loses what it answered for. The embedded engine
// syncs each insert to disk before it answers, so for it there is nothing to keep.
const keepDelivered = 15 * time.Minute

func deliveryConfig(s *Settings, db *database, waiting *journal.Journal, log *slog.Logger, metrics prometheus.Registerer) aggregate.Config {
	c := aggregate.Config{Conn: db, Journal: waiting, Node: waiting.Node(), ClaimWindow: s.ClaimWindow, Log: log, Metrics: metrics}
	if !s.embedded() {
		c.Keep = keepDelivered
	}
	return c
}

// run starts the parts, waits for the end and stops them: no new requests first, the engine last.
func (p *parts) run(ctx context.Context, s *Settings, out io.Writer) error {
	l := newLifecycle(p.log)
	l.start("memory", boundMemory)
	defer l.stop("memory")
	if p.db.engine != nil {
		l.start("clickhouse", p.db.engine.Run)
		defer l.stop("clickhouse")
	}
	l.start("tables", p.db.prepare)
	defer l.stop("tables")
	if p.places != nil {
		l.start("geo", p.places.Run)
		defer l.stop("geo")
	}
	if p.spam != nil {
		l.start("spam list", p.spam.Run)
		defer l.stop("spam list")
	}
	l.start("sites", p.afterTables(p.sites.Run))
	defer l.stop("sites")
	l.start("keys", p.afterTables(p.keys.Run))
	defer l.stop("keys")
	l.start("salts", p.afterTables(p.salts.Run))
	defer l.stop("salts")
	if p.redis != nil {
		l.start("redis", p.redis.Run)
		defer l.stop("redis")
		l.start("hot counts", p.hot.Run)
		defer l.stop("hot counts")
		l.start("reconciler", p.afterTables(p.compare.Run))
		defer l.stop("reconciler")
	}
	if p.claims != nil {
		l.start("claims", p.claims.Run)
		defer l.stop("claims")
	}
	l.start("delivery", p.afterTables(p.delivery.Run))
	defer l.stop("delivery")
	l.start("closed periods", p.afterTables(p.periods.Run))
	defer l.stop("closed periods")
	l.start("paths", p.afterTables(func(ctx context.Context) error { return p.ingest.SeedPaths(ctx, p.db) }))
	defer l.stop("paths")
	l.start("http", p.server.serve)
	if err := greet(out, s, p.server.url(), p.sites.Known()); err != nil {
		p.log.Warn("cannot greet", "error", err)
	}
	if len(p.sites.Known()) == 0 && !slices.Contains(s.Site, anySite) {
		p.log.Warn("no site is known yet, events are refused: name them with --site, --sites or `pagetally sites add`")
	}
	p.log.Info("listening", "address", p.server.ln.Addr().String(), "version", version)

	var failure error
	select {
	case <-ctx.Done():
		p.log.Info("stopping", "within", s.StopTimeout)
	case failure = <-l.failed:
		p.log.Error("a part failed, stopping", "error", failure)
	}
	deadline := time.Now().Add(s.StopTimeout)
	p.reads.StopStreams()
	if err := p.server.shutdown(s.StopTimeout / 2); err != nil {
		p.log.Warn("requests were cut off", "error", err)
	}
	l.stop("http")
	p.reads.StopReading()
	p.drain(deadline, failure)
	return failure
}

// drain delivers what is journaled until deadline and leaves the rest for the next start.
func (p *parts) drain(deadline time.Time, failure error) {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	if err := p.journal.Seal(ctx); err != nil {
		p.log.Warn("cannot seal the open segment, it is kept as it is", "error", err)
	}
	if failure != nil {
		return // what failed may be what delivery needs; the journal keeps everything
	}
	err := p.delivery.Drain(ctx)
	switch pending := p.delivery.Pending(); {
	case err != nil && !errors.Is(err, context.DeadlineExceeded):
		p.log.Warn("stopped delivering", "pending", pending, "error", err)
	case pending > 0:
		p.log.Info("events wait for the next start", "pending", pending)
	default:
		p.log.Info("all events are delivered")
	}
}

// afterTables is a part that begins when the tables are there.
func (p *parts) afterTables(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := p.db.awaitTables(ctx); err != nil {
			return nil // asked to stop before
		}
		return run(ctx)
	}
}

// checks are what /readyz asks.
func (p *parts) checks() []check {
	checks := []check{
		{name: "journal", needed: true, ready: p.journal.Err},
		{name: "salts", needed: true, ready: p.salts.Rotate}, // does nothing while the days around now have theirs
		{name: "clickhouse", ready: p.db.ready},
		{name: "delivery", ready: p.delivery.Ready},
	}
	if p.hot != nil {
		checks = append(checks, check{name: "redis", ready: p.hot.Ready, cache: true})
	}
	if p.claims != nil {
		checks = append(checks, check{name: "claims", ready: p.claims.Ready, cache: true})
	}
	return checks
}

// Secrets that lie in the data folder.
const (
	saltsFile = "salts"
	keysFile  = "keys"
	tokenFile = "token-secret" // of Umami's cache tokens
)

// closing closes a part in a defer and logs what goes wrong.
func closing(log *slog.Logger, part string, stop func() error) {
	if err := stop(); err != nil {
		log.Warn("cannot close", "part", part, "error", err)
	}
}
