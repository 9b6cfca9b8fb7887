package aggregate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pagetally/pagetally/schema"
)

// Reconciler holds the hot counts to the exact ones: it compares the minutes that are over with the events in ClickHouse, says by how
// much they drifted, and puts right what differs. So a Redis that was emptied is full again within minutes. Several nodes may run one.
type Reconciler struct {
	cfg ReconcilerConfig
	// differed is how far a minute was off in the last round: only what stays is put right, for what is in flight is hot first.
	differed map[siteMinute]hotSums
	drift    *prometheus.GaugeVec
	repaired prometheus.Counter
}

// ReconcilerConfig says what a Reconciler works with.
type ReconcilerConfig struct {
	Client redis.UniversalClient
	Conn   Conn
	// Sites are those to look at besides the ones that were counted lately.
	Sites   func() []string
	Every   time.Duration // between rounds, default 15 s
	Log     *slog.Logger
	Metrics prometheus.Registerer // nil registers nothing
}

const (
	// hotOpenMinutes are not compared: their events may still be on the way.
	hotOpenMinutes = 2
	// hotSettle is how many minutes after a Redis was found empty its counts are complete again.
	hotSettle = hotOpenMinutes + 2
	// hotMostSites bounds a round.
	hotMostSites = 2000
)

// NewReconciler returns a Reconciler that does nothing until Run.
func NewReconciler(cfg ReconcilerConfig) (*Reconciler, error) {
	if cfg.Client == nil || cfg.Conn == nil {
		return nil, errors.New("the reconciler needs Redis and ClickHouse")
	}
	cfg.Every = defaultTo(cfg.Every, 15*time.Second)
	if cfg.Sites == nil {
		cfg.Sites = func() []string { return nil }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	r := &Reconciler{
		cfg: cfg, differed: map[siteMinute]hotSums{},
		drift: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pagetally_hot_drift_ratio", Help: "How far the hot views of a site's closed minutes were off at the last comparison: |hot - exact| / exact.",
		}, []string{"site"}),
		repaired: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pagetally_hot_minutes_repaired_total", Help: "Minutes of sites whose hot counts differed from the exact ones and were put right.",
		}),
	}
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(r.drift, r.repaired)
	}
	return r, nil
}

// Run compares at once and then every so often until ctx ends. What fails is logged once and tried again.
func (r *Reconciler) Run(ctx context.Context) error {
	ticker := time.NewTicker(r.cfg.Every)
	defer ticker.Stop()
	failing := false
	for {
		err := r.round(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			r.cfg.Log.Warn("hot counts cannot be compared with the exact ones", "error", err)
		case err == nil && failing:
			r.cfg.Log.Info("hot counts are compared again")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// round looks at every site and returns the first error, having tried them all.
func (r *Reconciler) round(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	minute := time.Now().Unix() / 60
	sites, err := r.sites(ctx, minute)
	if err != nil {
		return err
	}
	before := r.differed
	r.differed = make(map[siteMinute]hotSums, len(before))
	for _, site := range sites {
		if e := r.site(ctx, site, minute, before); e != nil && err == nil {
			err = fmt.Errorf("site %s: %w", site, e)
		}
	}
	return err
}

// sites are the configured ones and those counted in the last hour.
func (r *Reconciler) sites(ctx context.Context, minute int64) ([]string, error) {
	rows, err := r.cfg.Conn.Query(ctx, `SELECT DISTINCT toString(site) FROM views WHERE bucket >= fromUnixTimestamp({from:Int64}) LIMIT {most:UInt64}`,
		clickhouse.Named("from", fmt.Sprint((minute-schema.HotMinutes-15)*60)), clickhouse.Named("most", fmt.Sprint(hotMostSites)))
	if err != nil {
		return nil, fmt.Errorf("list sites: %w", err)
	}
	defer func() { _ = rows.Close() }()
	sites := r.cfg.Sites()
	for rows.Next() {
		var site string
		if err := rows.Scan(&site); err != nil {
			return nil, err
		}
		sites = append(sites, site)
	}
	slices.Sort(sites)
	sites = slices.Compact(sites)
	return sites[:min(len(sites), hotMostSites)], rows.Err()
}

// hotSums are the sums of a minute, or the difference of two. pages are the views beside its pages, which older minutes have none of.
type hotSums struct{ views, events, pages int64 }

// hasPages reports whether the pages of a minute are still read.
func hasPages(m, now int64) bool { return m > now-schema.HotPageMinutes }

func (r *Reconciler) site(ctx context.Context, site string, minute int64, before map[siteMinute]hotSums) error {
	first, last := minute-schema.HotMinutes+1, minute-hotOpenMinutes
	exact, counted, err := r.exact(ctx, site, first)
	if err != nil {
		return err
	}
	hot, complete, err := r.hot(ctx, site, first, last)
	if err != nil {
		return err
	}
	var off, sum int64
	whole := true
	for m := first; m <= last; m++ {
		want, there := exact[m]
		got := hot[m]
		sum += want.views
		difference := hotSums{want.views - got.views, want.events - got.events, 0}
		if hasPages(m, minute) {
			difference.pages = want.views - got.pages
		}
		// Of a Redis that was emptied each minute is written anew: with negative counts a part of one may add up to the whole.
		if difference == (hotSums{}) && (complete || !there) {
			continue
		}
		off += max(difference.views, -difference.views)
		key := siteMinute{site, m}
		r.differed[key] = difference
		if before[key] != difference && complete {
			continue
		}
		done, err := r.repair(ctx, siteMinute{site, m}, hasPages(m, minute))
		switch {
		case err != nil:
			return err
		case done:
			delete(r.differed, key)
		case !complete:
			whole = false
		}
	}
	if complete { // what a Redis that was just emptied lacks is no drift
		r.drift.WithLabelValues(site).Set(float64(off) / float64(max(sum, 1)))
	}
	if !whole {
		return nil // the next round tries again
	}
	return r.complete(ctx, site, minute, counted)
}

// exact reads the sums by minute from first on; counted tells whether there is any.
func (r *Reconciler) exact(ctx context.Context, site string, first int64) (sums map[int64]hotSums, counted bool, err error) {
	rows, err := r.cfg.Conn.Query(ctx, `SELECT intDiv(toUnixTimestamp(ts), 60) AS minute, sumIf(n, name = 'pageview'), sum(n) FROM events
WHERE site = {site:String} AND name != 'engagement' AND ts >= fromUnixTimestamp64Milli({from:Int64} * 1000) GROUP BY minute`,
		clickhouse.Named("site", site), clickhouse.Named("from", fmt.Sprint(first*60)))
	if err != nil {
		return nil, false, fmt.Errorf("read exact minutes: %w", err)
	}
	defer func() { _ = rows.Close() }()
	sums = map[int64]hotSums{}
	for rows.Next() {
		var minute uint32
		var s hotSums
		if err := rows.Scan(&minute, &s.views, &s.events); err != nil {
			return nil, false, err
		}
		sums[int64(minute)], counted = s, true
	}
	return sums, counted, rows.Err()
}

// hot reads the sums from Redis, and whether they were complete before.
func (r *Reconciler) hot(ctx context.Context, site string, first, last int64) (sums map[int64]hotSums, complete bool, err error) {
	pipe := r.cfg.Client.Pipeline()
	mark := pipe.Exists(ctx, schema.HotCompleteKey(site))
	type answer struct{ minute, pages *redis.SliceCmd }
	answers := make(map[int64]answer, last-first+1)
	for m := first; m <= last; m++ {
		answers[m] = answer{
			pipe.HMGet(ctx, schema.HotMinuteKey(site, m), schema.HotViews, schema.HotEvents),
			pipe.HMGet(ctx, schema.HotPagesKey(site, m), schema.HotViews),
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, false, fmt.Errorf("read hot minutes: %w", err)
	}
	sums = make(map[int64]hotSums, len(answers))
	for m, a := range answers {
		sums[m] = hotSums{hotNumber(a.minute.Val()[0]), hotNumber(a.minute.Val()[1]), hotNumber(a.pages.Val()[0])}
	}
	return sums, mark.Val() == 1, nil
}

// hotNumber is a field of a hash, 0 when it is not there.
func hotNumber(field any) int64 {
	text, _ := field.(string)
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// complete says from when on the hot counts of a site can be read: at once if there was nothing to count, else when the minutes that
// are open now have been compared.
func (r *Reconciler) complete(ctx context.Context, site string, minute int64, counted bool) error {
	from := int64(0)
	if counted {
		from = minute + hotSettle
	}
	pipe := r.cfg.Client.Pipeline()
	pipe.SetNX(ctx, schema.HotCompleteKey(site), from, hotExpiry)
	pipe.Expire(ctx, schema.HotCompleteKey(site), hotExpiry)
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("mark hot counts complete: %w", err)
	}
	return nil
}
