package aggregate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/redis/go-redis/v9"

	"github.com/pagetally/pagetally/schema"
)

// hotRefillFields bounds each list of a minute that is put right.
const hotRefillFields = schema.HotFieldLimit / 3

// hotTruth is what the events hold of a minute, as far as a set of batches brought it.
type hotTruth struct {
	siteMinute
	batches       []string
	views, events int64
	pages, fields []any // names and counts in turn
	visitors      []any
	cut           bool // there are more pages
}

// repair writes a minute anew from the events, unless Redis counted on while they were read: then done is false. What it writes is a set
// of batches, and each of them is marked as counted in the same step: one of them that is still on its way to Redis is not added once more.
func (r *Reconciler) repair(ctx context.Context, at siteMinute, withPages bool) (done bool, err error) {
	truth := &hotTruth{siteMinute: at}
	seen, _, err := r.hot(ctx, at.site, at.minute, at.minute)
	if err != nil {
		return false, err
	}
	for _, read := range []func(context.Context, *hotTruth) error{r.truthSums, r.truthFields, r.truthVisitors} {
		if err := read(ctx, truth); err != nil {
			return false, fmt.Errorf("read exact minute: %w", err)
		}
	}
	flag := "none"
	if withPages {
		flag = "all"
		if err := r.truthPages(ctx, truth); err != nil {
			return false, fmt.Errorf("read exact pages: %w", err)
		}
		if truth.cut {
			flag = schema.HotCut
		}
	}
	was := seen[at.minute]
	args := []any{
		int(hotExpiry / time.Second), int(hotPageExpiry / time.Second), was.views, was.events, was.pages,
		truth.views, truth.events, flag, len(truth.fields) / 2, len(truth.pages) / 2,
	}
	args = append(append(append(args, truth.fields...), truth.pages...), truth.visitors...)
	wrote, err := hotRepairScript.Run(ctx, r.cfg.Client, truth.keys(), args...).Int64()
	if err != nil {
		return false, fmt.Errorf("repair hot minute: %w", err)
	}
	if wrote == 1 {
		r.repaired.Inc()
	}
	return wrote == 1, nil
}

func (t *hotTruth) keys() []string {
	keys := []string{schema.HotMinuteKey(t.site, t.minute), schema.HotVisitorsKey(t.site, t.minute), schema.HotPagesKey(t.site, t.minute)}
	for _, batch := range t.batches {
		keys = append(keys, schema.HotBatchKey(t.site, batch, t.minute))
	}
	return keys
}

// ofMinute are the events of a minute; ofBatches those of the batches that truthSums found, so that all readings are of one set.
const (
	ofMinute = ` FROM events WHERE site = {site:String} AND name != 'engagement'
AND ts >= fromUnixTimestamp64Milli({from:Int64} * 1000) AND ts < fromUnixTimestamp64Milli(({from:Int64} + 60) * 1000)`
	ofBatches = ofMinute + ` AND has({batches:Array(String)}, batch)`
)

// each reads rows of t's minute.
func (r *Reconciler) each(ctx context.Context, t *hotTruth, sql string, scan func(clickhouseRow) error) error {
	rows, err := r.cfg.Conn.Query(ctx, sql, clickhouse.Named("site", t.site), clickhouse.Named("from", fmt.Sprint(t.minute*60)),
		clickhouse.Named("batches", t.batches))
	if err != nil {
		return err
	}
	for rows.Next() {
		if err := scan(rows); err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

// clickhouseRow is the row that is being read.
type clickhouseRow interface{ Scan(dest ...any) error }

// truthSums reads which batches there are, and their sums. Parts appear whole, so that one statement sees all of a batch's rows or none.
func (r *Reconciler) truthSums(ctx context.Context, t *hotTruth) error {
	return r.each(ctx, t, `SELECT sumIf(n, name = 'pageview'), sum(n), groupUniqArray(batch)`+ofMinute, func(row clickhouseRow) error {
		return row.Scan(&t.views, &t.events, &t.batches)
	})
}

func (r *Reconciler) truthFields(ctx context.Context, t *hotTruth) (err error) {
	for _, list := range schema.HotLists {
		fields, err := r.truthList(ctx, t, list.Prefix, list.Column, hotRefillFields)
		if err != nil {
			return err
		}
		t.fields = append(t.fields, fields...)
	}
	return nil
}

func (r *Reconciler) truthPages(ctx context.Context, t *hotTruth) (err error) {
	if t.pages, err = r.truthList(ctx, t, "", "path_key", schema.HotPageLimit+1); err != nil {
		return err
	}
	if t.cut = len(t.pages) > 2*schema.HotPageLimit; t.cut {
		t.pages = t.pages[:2*schema.HotPageLimit]
	}
	return nil
}

// truthList lists the values of a column with most page views, and these.
func (r *Reconciler) truthList(ctx context.Context, t *hotTruth, prefix, column string, most int) (list []any, err error) {
	sql := `SELECT toString(` + column + `) AS value, sum(n) AS views` + ofBatches + fmt.Sprintf(` AND name = 'pageview'
GROUP BY value ORDER BY views DESC, value LIMIT %d`, most)
	return list, r.each(ctx, t, sql, func(row clickhouseRow) error {
		var value string
		var views int64
		err := row.Scan(&value, &views)
		list = append(list, prefix+value, views)
		return err
	})
}

func (r *Reconciler) truthVisitors(ctx context.Context, t *hotTruth) error {
	sql := `SELECT DISTINCT visitor` + ofBatches + fmt.Sprintf(` AND visitor != 0 LIMIT %d`, hotVisitors)
	return r.each(ctx, t, sql, func(row clickhouseRow) error {
		var visitor uint64
		err := row.Scan(&visitor)
		t.visitors = append(t.visitors, hotVisitor(visitor))
		return err
	})
}

// hotRepairScript writes a minute anew. KEYS: minute's hash, visitors, pages, then markers. ARGV: seconds to live, those of pages, views,
// events and views of the pages that were seen, views, events, "all", "cut" or "none" of the pages, number of fields, number of pages,
// then name and count of each field, then of each page, then visitors.
var hotRepairScript = redis.NewScript(`
local function number(key, field) return tonumber(redis.call('HGET', key, field) or '0') end
if number(KEYS[1], 'views') ~= tonumber(ARGV[3]) or number(KEYS[1], 'events') ~= tonumber(ARGV[4]) then return 0 end
if ARGV[8] ~= 'none' and number(KEYS[3], 'views') ~= tonumber(ARGV[5]) then return 0 end
for i = 4, #KEYS do redis.call('SET', KEYS[i], '1', 'EX', ARGV[1]) end
local pages = 11 + 2 * tonumber(ARGV[9])
local first = pages + 2 * tonumber(ARGV[10])
redis.call('DEL', KEYS[1], KEYS[3])
redis.call('HSET', KEYS[1], 'views', ARGV[6], 'events', ARGV[7])
for i = 11, pages - 2, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('EXPIRE', KEYS[1], ARGV[1])
if ARGV[8] ~= 'none' then
  redis.call('HSET', KEYS[3], 'views', ARGV[6])
  for i = pages, first - 2, 2 do redis.call('HSET', KEYS[3], ARGV[i], ARGV[i + 1]) end
  if ARGV[8] == 'cut' then redis.call('HSET', KEYS[3], 'cut', '1') end
  redis.call('EXPIRE', KEYS[3], ARGV[2])
end
local sketch = KEYS[2]
` + hotAddVisitors)
