package periods

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
)

// Site is what building needs to know of a site.
type Site struct {
	Zone      *time.Location // in which its days begin and its visits are cut; nil: UTC
	Retention int            // days for which raw events are kept; 0: for ever
}

// Config of a Builder.
type Config struct {
	// Conn's default database holds the tables.
	Conn driver.Conn
	// Sites knows the sites. What it does not know is not built, for nobody can read it.
	Sites func(domain string) (Site, bool)
	Every time.Duration // between looks, default 1 minute
	// Grace is how long after its end a period is built (default 10 minutes), and Quiet how long nothing must have touched it (default
	// 30 seconds): building what is about to be touched is work for nothing.
	Grace, Quiet time.Duration
	// Timeout bounds a statement, default 5 minutes, and MaxMemory its memory in bytes, default 1 GiB. What needs more goes to disk.
	Timeout   time.Duration
	MaxMemory int64
	Now       func() time.Time // nil is time.Now
	Log       *slog.Logger
	Metrics   prometheus.Registerer // nil registers nothing
}

// Builder builds closed periods. Several nodes may run one each.
type Builder struct {
	cfg     Config
	metrics *metrics
	// settled are sites of which nothing was left to do, and what they looked like then.
	settled   map[string]look
	leftovers map[leftover]time.Time // rows of builds that are not current, and when they were first seen
	cleaned   time.Time
}

// look is what decides whether a site has to be looked at again.
type look struct {
	changes   uint64
	closedUTC int64 // day
	closed    int64 // day of the site
	zone      string
}

// New checks cfg and returns a Builder that does nothing until Run or Look.
func New(cfg Config) (*Builder, error) {
	if cfg.Conn == nil || cfg.Sites == nil {
		return nil, errors.New("building periods needs ClickHouse and sites")
	}
	setDefault(&cfg.Every, time.Minute)
	setDefault(&cfg.Grace, 10*time.Minute)
	setDefault(&cfg.Quiet, 30*time.Second)
	setDefault(&cfg.Timeout, 5*time.Minute)
	setDefault(&cfg.MaxMemory, 1<<30)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register metrics of periods: %w", err)
	}
	return &Builder{cfg: cfg, metrics: m, settled: map[string]look{}, leftovers: map[leftover]time.Time{}}, nil
}

func setDefault[T comparable](v *T, absent T) {
	var zero T
	if *v == zero {
		*v = absent
	}
}

// Run looks at once and then every so often until ctx ends. What fails is logged when it begins to fail and tried again.
func (b *Builder) Run(ctx context.Context) error {
	ticker := time.NewTicker(b.cfg.Every)
	defer ticker.Stop()
	failing := false
	for {
		_, err := b.Look(ctx)
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case err != nil && !failing:
			b.cfg.Log.Warn("building closed periods fails, trying again", "error", err)
		case err == nil && failing:
			b.cfg.Log.Info("building closed periods works again")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Look builds all that is due now and returns how many periods were built. A site that fails does not keep others waiting.
func (b *Builder) Look(ctx context.Context) (built int, err error) {
	sites, err := b.touchedSites(ctx)
	if err != nil {
		return 0, err
	}
	p := &progress{log: b.cfg.Log, next: time.Now().Add(progressEvery)}
	var failures []error
	waiting := map[grain]int{}
	for _, site := range sites {
		done, left, err := b.lookAt(ctx, site, p)
		built += done
		for grain, n := range left {
			waiting[grain] += n
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("site %s: %w", site.domain, err))
		}
		if ctx.Err() != nil {
			return built, ctx.Err()
		}
	}
	b.metrics.wait(waiting)
	if err := b.clean(ctx); err != nil {
		failures = append(failures, err)
	}
	if len(failures) > 0 {
		b.metrics.failures.Inc()
	}
	return built, errors.Join(failures...)
}

// touchedSite is a site with events.
type touchedSite struct {
	domain  string
	changes uint64
	Site
}

// touchedSites lists the sites that are known and have events.
func (b *Builder) touchedSites(ctx context.Context) ([]touchedSite, error) {
	rows, err := b.cfg.Conn.Query(ctx, "SELECT site, sum(changes) FROM touched GROUP BY site ORDER BY site")
	if err != nil {
		return nil, fmt.Errorf("read touched sites: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var list []touchedSite
	for rows.Next() {
		var s touchedSite
		if err := rows.Scan(&s.domain, &s.changes); err != nil {
			return nil, fmt.Errorf("read touched sites: %w", err)
		}
		var known bool
		if s.Site, known = b.cfg.Sites(s.domain); !known {
			continue
		}
		if s.Zone == nil {
			s.Zone = time.UTC
		}
		list = append(list, s)
	}
	return list, rows.Err()
}

// lookAt builds what is due of a site. left counts what is due and was not built.
func (b *Builder) lookAt(ctx context.Context, site touchedSite, p *progress) (built int, left map[grain]int, err error) {
	closed := b.cfg.Now().Add(-b.cfg.Grace)
	now := look{changes: site.changes, closedUTC: dayNumber(closed, time.UTC), closed: dayNumber(closed, site.Zone), zone: site.Zone.String()}
	if b.settled[site.domain] == now {
		return 0, nil, nil
	}
	state, err := b.state(ctx, site.domain)
	if err != nil {
		return 0, nil, err
	}
	left = map[grain]int{}
	due, waiting := state.due(site.Site, closed, b.cfg.Now(), b.cfg.Quiet)
	tasks, silent := divide(due)
	if built, err = b.recordSilent(ctx, site.domain, state, silent); err != nil {
		return 0, nil, err
	}
	missing := len(tasks)
	for _, group := range groups(tasks) {
		p.tick(site.domain, len(tasks)-missing, len(tasks))
		done, err := b.do(ctx, site, state, group)
		if built, missing = built+done, missing-done; err != nil {
			left[group[0].grain] += missing
			return built, left, err
		}
	}
	if waiting == 0 && built == len(due) {
		b.settled[site.domain] = now
	}
	return built, left, nil
}

// progressEvery is how often a long look tells how far it is.
const progressEvery = 10 * time.Second

type progress struct {
	log  *slog.Logger
	next time.Time
}

func (p *progress) tick(site string, done, of int) {
	if now := time.Now(); now.After(p.next) {
		p.next = now.Add(progressEvery)
		p.log.Info("building closed periods", "site", site, "built", done, "of", of)
	}
}

// settings of every statement. One thread is enough: nobody waits.
func (b *Builder) settings() clickhouse.Settings {
	return clickhouse.Settings{
		"max_threads": 1, "max_insert_threads": 1,
		"max_execution_time": int(b.cfg.Timeout.Seconds()), "max_memory_usage": b.cfg.MaxMemory,
		"max_bytes_before_external_group_by": b.cfg.MaxMemory / 4, "max_bytes_before_external_sort": b.cfg.MaxMemory / 4,
		"async_insert": 0, "insert_deduplicate": 0, "deduplicate_insert": "disable", "deduplicate_insert_select": "disable",
		"max_partitions_per_insert_block": 0, "use_query_condition_cache": 0,
		"do_not_merge_across_partitions_select_final": 1,
	}
}
