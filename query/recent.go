package query

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pagetally/pagetally/schema"
)

// Mode says where a count may come from.
type Mode string

// The modes. What Redis does not know is answered exactly in each of them, and Meta says so.
const (
	ModeExact  Mode = "exact"  // from the tables
	ModeRecent Mode = "recent" // from Redis upon a base from the tables
	ModeAuto   Mode = "auto"   // recent where Redis can answer what is asked
)

// sourceRecent is the Meta.Source of a recent answer.
const sourceRecent = "recent"

// recentBound is how far a recent count is usually behind the events that were acknowledged: the bound that hot minutes are held to.
const recentBound = 0.005

// recentAhead is how many minutes after the running one may hold events: a keyed time may be 5 minutes ahead, and clocks differ.
const recentAhead = 6

// Reasons for an exact answer to a question for a recent one. Callers are shown them.
var (
	errOtherMetric = errors.New("hot counts know the views of a site or a page, and the events of a site")
	errOtherRange  = errors.New("hot counts know ranges that include now and began before the last minutes")
	errPagesCut    = errors.New("hot counts lack some pages: a minute had too many")
)

// Count answers one row for a page or a site, in the mode that r names.
func (s *Server) Count(ctx context.Context, r Request) (CountResult, error) {
	if r.Mode != ModeRecent && r.Mode != ModeAuto {
		return s.cfg.Store.Count(ctx, r)
	}
	result, refused := s.recent.count(ctx, r)
	if refused == nil {
		return result, nil
	}
	result, err := s.cfg.Store.Count(ctx, r)
	if err == nil {
		result.Meta.Reason = s.exactReason(refused)
	}
	return result, err
}

// exactReason is why an answer is not recent, as callers are told.
func (s *Server) exactReason(err error) string {
	for _, shown := range []error{errNoHot, errNotComplete, errOtherMetric, errOtherRange, errPagesCut} {
		if errors.Is(err, shown) {
			return shown.Error()
		}
	}
	s.logFailure("count", err)
	if errors.Is(err, errNoBase) {
		return errNoBase.Error()
	}
	return "Redis does not answer"
}

// count is the base plus what Redis counted since. What the tables held when the base was read is the least there is: Redis may have
// lost a part.
func (b *bases) count(ctx context.Context, r Request) (CountResult, error) {
	if b.hot == nil {
		return CountResult{}, errNoHot
	}
	if err := r.knownToRedis(); err != nil {
		return CountResult{}, err
	}
	base, err := b.get(ctx, r)
	if err != nil {
		return CountResult{}, err
	}
	minutes, err := base.minutes(&r)
	if err != nil {
		return CountResult{}, err
	}
	since, err := b.hot.since(ctx, &r, minutes)
	if err != nil {
		return CountResult{}, err
	}
	return base.result(r, since), nil
}

// knownToRedis refuses what Redis does not count. The range is looked at when the base is there.
func (r *Request) knownToRedis() error {
	only := func(known ...Metric) bool {
		return !slices.ContainsFunc(r.Metrics, func(m Metric) bool { return !slices.Contains(known, m) })
	}
	switch {
	case r.Filter != nil:
		return errOtherMetric
	case only(Views) && (r.Name == "" || r.Name == schema.PageView):
		return nil
	case !only(Views, Events) || r.Path != "" || r.Name != "":
		return errOtherMetric
	}
	return nil
}

// minuteSpan is half-open, in minutes since the epoch.
type minuteSpan struct{ from, to int64 }

// minutes are those to be read from Redis: from the base's cut to the end of what may have happened.
func (b *base) minutes(r *Request) (minuteSpan, error) {
	now := r.Now.Unix() / 60
	span := minuteSpan{b.cut, now + 1 + recentAhead}
	if r.Range.All {
		return span, nil
	}
	if end := r.Range.To.UnixMilli(); end < span.to*60_000 {
		if end%60_000 != 0 || !r.Range.To.After(r.Now) {
			return span, errOtherRange
		}
		span.to = end / 60_000
	}
	return span, nil
}

func (b *base) result(r Request, since Figures) CountResult {
	r.Range = b.whole
	f := noFigures(r.Metrics)
	meta := newMeta(&r, b.asOf)
	meta.Source = sourceRecent
	meta.Base = &BaseMeta{Figures: b.before, Before: formatTime(time.Unix(b.cut*60, 0).In(r.Range.Loc))}
	for _, m := range r.Metrics {
		before, _ := b.before.Get(m)
		total, _ := b.total.Get(m)
		added, _ := since.Get(m)
		f.set(m, max(before+added, total))
		meta.Exact[m], meta.ErrorBound[m] = false, recentBound
	}
	return CountResult{Site: r.Site, Path: r.Path, Name: r.Name, Figures: f, Meta: meta}
}

// since adds up minutes in one round trip.
func (h *Hot) since(ctx context.Context, r *Request, minutes minuteSpan) (Figures, error) {
	ctx, cancel := context.WithTimeout(ctx, hotReadTimeout)
	defer cancel()
	key, first, second := schema.HotMinuteKey, schema.HotViews, schema.HotEvents
	if r.Path != "" {
		key, first, second = schema.HotPagesKey, r.Path, schema.HotCut
	}
	keys := make([]string, 1, 1+minutes.to-minutes.from)
	keys[0] = schema.HotCompleteKey(r.Site)
	for m := minutes.from; m < minutes.to; m++ {
		keys = append(keys, key(r.Site, m))
	}
	sums, err := sinceScript.Run(ctx, h.client, keys, first, second).Int64Slice()
	switch {
	case err != nil:
		return Figures{}, fmt.Errorf("read hot counts: %w", err)
	case len(sums) == 0 || sums[0] > r.Now.Unix()/60:
		return Figures{}, errNotComplete
	case r.Path != "" && sums[2] != 0:
		return Figures{}, errPagesCut
	}
	return Figures{Views: &sums[1], Events: &sums[2]}, nil
}

// sinceScript adds up two fields of several hashes. KEYS: minute from which on counts can be read, hashes. ARGV: the fields. It returns
// that minute and the sums, or nothing while the counts cannot be read.
var sinceScript = redis.NewScript(`
local from = redis.call('GET', KEYS[1])
if not from then return {} end
local a, b = 0, 0
for i = 2, #KEYS do
  local got = redis.call('HMGET', KEYS[i], ARGV[1], ARGV[2])
  if got[1] then a = a + tonumber(got[1]) end
  if got[2] then b = b + tonumber(got[2]) end
end
return {tonumber(from), a, b}
`)
