package query

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pagetally/pagetally/schema"
)

var (
	errNoHot       = errors.New("hot counts are off")
	errNotComplete = errors.New("hot counts are being filled")
)

// Hot reads the counts of the last hour from Redis. A nil Hot has none.
type Hot struct {
	client redis.UniversalClient
}

// NewHot returns a reader of client.
func NewHot(client redis.UniversalClient) *Hot { return &Hot{client} }

// hotReadTimeout is how long a reader waits for Redis before ClickHouse is asked.
const hotReadTimeout = 300 * time.Millisecond

// read asks for all of the last hour in one round trip.
func (h *Hot) read(ctx context.Context, site string, minute int64) (*minuteCounts, error) {
	if h == nil {
		return nil, errNoHot
	}
	ctx, cancel := context.WithTimeout(ctx, hotReadTimeout)
	defer cancel()
	counts, err := h.ask(ctx, site, minute, (*redis.Script).EvalSha)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		counts, err = h.ask(ctx, site, minute, (*redis.Script).Eval)
	}
	return counts, err
}

// ask sends the scripts the given way: by their hash, or whole.
func (h *Hot) ask(ctx context.Context, site string, minute int64, run func(*redis.Script, context.Context, redis.Scripter, []string, ...any) *redis.Cmd) (*minuteCounts, error) {
	pipe := h.client.Pipeline()
	complete := pipe.Get(ctx, schema.HotCompleteKey(site))
	views := make([]*redis.StringCmd, 0, spanHour)
	for m := minute - spanHour + 1; m <= minute; m++ {
		views = append(views, pipe.HGet(ctx, schema.HotMinuteKey(site, m), schema.HotViews))
	}
	lists := make([]*redis.MapStringStringCmd, 0, spanNow)
	for m := minute - spanNow + 1; m <= minute; m++ {
		lists = append(lists, pipe.HGetAll(ctx, schema.HotMinuteKey(site, m)))
	}
	visitors5 := run(unionScript, ctx, pipe, unionKeys(site, minute, spanNow))
	visitors30 := run(unionScript, ctx, pipe, unionKeys(site, minute, spanHalf))
	_, _ = pipe.Exec(ctx) // each answer has its own error

	from, err := complete.Int64()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, errNotComplete
	case err != nil:
		return nil, fmt.Errorf("read hot counts: %w", err)
	case from > minute:
		return nil, errNotComplete
	}
	counts := newMinuteCounts(sourceHot)
	for i, v := range views {
		if counts.views[i], err = v.Int64(); err != nil && !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("read hot views: %w", err)
		}
	}
	for _, list := range lists {
		if err := list.Err(); err != nil {
			return nil, fmt.Errorf("read hot lists: %w", err)
		}
		counts.addLists(list.Val())
	}
	if counts.visitors5, err = visitors5.Int64(); err != nil {
		return nil, fmt.Errorf("read hot visitors: %w", err)
	}
	if counts.visitors30, err = visitors30.Int64(); err != nil {
		return nil, fmt.Errorf("read hot visitors: %w", err)
	}
	return counts, nil
}

func (m *minuteCounts) addLists(fields map[string]string) {
	for field, count := range fields {
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			continue // not ours
		}
		for prefix, values := range m.lists {
			if value, ok := strings.CutPrefix(field, prefix); ok {
				values[value] += n
			}
		}
	}
}

// unionScript counts the visitors of several minutes together. It merges them first: that is what PFCOUNT of several keys does in
// Redis, and what the embedded one does not do by itself. KEYS: scratch, minutes.
var unionScript = redis.NewScript(`
redis.call('DEL', KEYS[1])
redis.call('PFMERGE', KEYS[1], unpack(KEYS, 2))
redis.call('EXPIRE', KEYS[1], 5)
return redis.call('PFCOUNT', KEYS[1])
`)

func unionKeys(site string, minute, span int64) []string {
	keys := []string{schema.HotScratchKey(site, span)}
	for m := minute - span + 1; m <= minute; m++ {
		keys = append(keys, schema.HotVisitorsKey(site, m))
	}
	return keys
}
