package aggregate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/pagetally/pagetally/schema"
)

// Hot keeps the counts of the last hour in Redis, minute by minute, for reads that want them now. It is a cache: a Redis that is slow,
// away or emptied delays and loses no event, and what the hot counts lack then is brought back by the reconciler.
//
// Delivery hands over each group once it is decided; a goroutine of Hot writes it. A batch is counted once however often it is handed
// over, after a restart or a lost answer: the script that adds it to a minute leaves a marker beside it. The Reconciler leaves the same
// marker for every batch that it finds in a minute that it writes anew, so that a batch which comes late is not added to it again.
type Hot struct {
	client  redis.UniversalClient
	log     *slog.Logger
	metrics *hotMetrics
	now     func() time.Time
	minutes chan []*hotMinute
	away    atomic.Pointer[string] // why Redis is not written to, nil while it is

	pending []*hotMinute // of Run's goroutine
}

// HotConfig says what a Hot works with.
type HotConfig struct {
	Client  redis.UniversalClient
	Log     *slog.Logger
	Metrics prometheus.Registerer // nil registers nothing
}

const (
	hotExpiry     = (schema.HotMinutes + 15) * time.Minute
	hotPageExpiry = (schema.HotPageMinutes + 5) * time.Minute
	hotTimeout    = time.Second // for one pipeline
	// Groups and minutes that wait for Redis at most. What is more is left to the reconciler.
	hotQueue   = 16
	hotPending = 2048
	// hotPipeline bounds the minutes written at once.
	hotPipeline     = 128
	hotLook         = 10 * time.Second // between two looks at a Redis that is not written to
	hotBackoffFirst = 100 * time.Millisecond
	hotBackoffMost  = 5 * time.Second
)

// NewHot returns a Hot that does nothing until Run.
func NewHot(cfg HotConfig) (*Hot, error) {
	if cfg.Client == nil {
		return nil, errors.New("hot counts need a Redis")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Hot{
		client: cfg.Client, log: cfg.Log, metrics: newHotMetrics(cfg.Metrics), now: time.Now, minutes: make(chan []*hotMinute, hotQueue),
	}, nil
}

// Ready is nil while Redis takes what is written to it.
func (h *Hot) Ready() error {
	if reason := h.away.Load(); reason != nil {
		return errors.New(*reason)
	}
	return nil
}

// count adds up a decided group and hands it to Run. It does not wait for Redis.
func (h *Hot) count(g *group) {
	if h == nil {
		return
	}
	minutes, err := hotMinutesOf(g, h.now())
	if err != nil {
		h.log.Error("cannot add a group to the hot counts", "group", g.ID, "error", err) // delivery meets the same and says what to do
		return
	}
	select {
	case h.minutes <- minutes:
	default:
		h.metrics.left.Add(float64(len(minutes)))
	}
}

// Run writes until ctx ends, then makes one last try.
func (h *Hot) Run(ctx context.Context) error {
	retry := time.NewTimer(0)
	defer retry.Stop()
	look := time.NewTicker(hotLook)
	defer look.Stop()
	backoff := hotBackoffFirst
	for {
		select {
		case <-ctx.Done():
			if len(h.pending) > 0 {
				_ = h.flush(context.WithoutCancel(ctx))
			}
			return nil
		case minutes := <-h.minutes:
			h.take(minutes)
			if h.away.Load() != nil {
				continue // the timer tries
			}
		case <-look.C:
			if h.away.Load() != nil {
				continue
			}
		case <-retry.C:
		}
		err := h.flush(ctx)
		h.state(err)
		if err == nil {
			backoff = hotBackoffFirst
			continue
		}
		retry.Reset(backoff)
		backoff = min(2*backoff, hotBackoffMost)
	}
}

// take keeps minutes until they are written; of too many the oldest are left out.
func (h *Hot) take(minutes []*hotMinute) {
	h.pending = append(h.pending, minutes...)
	if over := len(h.pending) - hotPending; over > 0 {
		h.metrics.left.Add(float64(over))
		h.pending = slices.Delete(h.pending, 0, over)
	}
}

// state logs a change once.
func (h *Hot) state(err error) {
	was := h.away.Load()
	if err == nil {
		h.metrics.up.Set(1)
		if was != nil {
			h.away.Store(nil)
			h.log.Info("hot counts are written again")
		}
		return
	}
	h.metrics.up.Set(0)
	h.metrics.failures.Inc()
	reason := err.Error()
	h.away.Store(&reason)
	if was == nil {
		h.log.Warn("hot counts wait for Redis; exact counts go on", "error", err)
	}
}

// flush writes what is pending and keeps what could not be written. With nothing to write it asks whether Redis is there.
func (h *Hot) flush(ctx context.Context) error {
	if len(h.pending) == 0 {
		ctx, cancel := context.WithTimeout(ctx, hotTimeout)
		defer cancel()
		return h.client.Ping(ctx).Err()
	}
	for len(h.pending) > 0 {
		now := h.pending[:min(len(h.pending), hotPipeline)]
		failed, err := h.write(ctx, now)
		h.pending = append(failed, h.pending[len(now):]...)
		if err != nil {
			return err
		}
	}
	return nil
}

// write sends minutes in one pipeline and returns those whose outcome is not known to be good: writing them again is safe.
func (h *Hot) write(ctx context.Context, minutes []*hotMinute) (failed []*hotMinute, err error) {
	ctx, cancel := context.WithTimeout(ctx, hotTimeout)
	defer cancel()
	began := h.now()
	pipe := h.client.Pipeline()
	answers := make([]*redis.Cmd, len(minutes))
	for i, m := range minutes {
		answers[i] = hotScript.EvalSha(ctx, pipe, m.keys(), m.args()...)
	}
	_, _ = pipe.Exec(ctx) // each answer has its own error
	for i, m := range minutes {
		answer := answers[i].Err()
		if redis.HasErrorPrefix(answer, "NOSCRIPT") {
			answer = hotScript.Eval(ctx, h.client, m.keys(), m.args()...).Err()
		}
		if answer != nil {
			failed = append(failed, m)
			err = fmt.Errorf("write hot counts: %w", answer)
			continue
		}
		h.metrics.minutes.Inc()
	}
	h.metrics.seconds.Observe(h.now().Sub(began).Seconds())
	return failed, err
}

// hotScript adds a batch to a minute, once: the marker is made in the same step. Every key gets its expiry in that step too, so that
// none can stay for ever. KEYS: marker, minute's hash, visitors, pages. ARGV: seconds to live, those of pages, most fields, most pages,
// views, events, "all", "cut" or "none" of the pages, number of fields, number of pages, then name and count of each field, then of each
// page, then visitors.
var hotScript = redis.NewScript(`
if not redis.call('SET', KEYS[1], '1', 'NX', 'EX', ARGV[1]) then return 0 end
redis.call('HINCRBY', KEYS[2], 'views', ARGV[5])
redis.call('HINCRBY', KEYS[2], 'events', ARGV[6])
local function add(key, most, first, last)
  local room, cut = most - redis.call('HLEN', key), false
  for i = first, last, 2 do
    local known = room > 0 or redis.call('HEXISTS', key, ARGV[i]) == 1
    if known then
      if redis.call('HINCRBY', key, ARGV[i], ARGV[i + 1]) == tonumber(ARGV[i + 1]) then room = room - 1 end
    else
      cut = true
    end
  end
  return cut
end
local pages = 10 + 2 * tonumber(ARGV[8])
local first = pages + 2 * tonumber(ARGV[9])
add(KEYS[2], tonumber(ARGV[3]), 10, pages - 2)
redis.call('EXPIRE', KEYS[2], ARGV[1])
if ARGV[7] ~= 'none' then
  redis.call('HINCRBY', KEYS[4], 'views', ARGV[5])
  if add(KEYS[4], tonumber(ARGV[4]), pages, first - 2) or ARGV[7] == 'cut' then redis.call('HSET', KEYS[4], 'cut', '1') end
  redis.call('EXPIRE', KEYS[4], ARGV[2])
end
local sketch = KEYS[3]
` + hotAddVisitors)

// hotAddVisitors ends a script: the arguments from first on are visitors of sketch, which gets its expiry with them.
const hotAddVisitors = `
for i = first, #ARGV, 500 do
  redis.call('PFADD', sketch, unpack(ARGV, i, math.min(i + 499, #ARGV)))
end
if first <= #ARGV then redis.call('EXPIRE', sketch, ARGV[1]) end
return 1
`

type hotMetrics struct {
	minutes  prometheus.Counter
	left     prometheus.Counter
	failures prometheus.Counter
	up       prometheus.Gauge
	seconds  prometheus.Histogram
}

func newHotMetrics(r prometheus.Registerer) *hotMetrics {
	m := &hotMetrics{
		minutes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pagetally_hot_minutes_written_total", Help: "Minutes of sites that groups were added to in Redis.",
		}),
		left: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pagetally_hot_left_total", Help: "Minutes left out of the hot counts because Redis did not keep up; the reconciler brings them back.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pagetally_hot_failures_total", Help: "Pipelines to Redis that failed in part or whole and were repeated.",
		}),
		up: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pagetally_hot_up", Help: "1 while hot counts are written to Redis, 0 while they wait for it.",
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pagetally_hot_write_seconds", Help: "Duration of a pipeline of hot counts.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 12),
		}),
	}
	if r != nil {
		r.MustRegister(m.minutes, m.left, m.failures, m.up, m.seconds)
	}
	return m
}
