package query

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Answers about ranges that are over are kept until the ledger tells of a change in their days: every batch adds to the changes of the
// days that it touches before its rows are there, and again when they are. So an answer that was read at some number of changes holds as
// long as that number.

const (
	// cacheBytes bounds the answers that are kept, and cacheMost one of them.
	cacheBytes = 32 << 20
	cacheMost  = 1 << 20
	// cacheOver is how long after its end a range is taken to be over. What comes later is counted all the same.
	cacheOver = 5 * time.Minute
)

// encoded is an answer as it is sent.
type encoded struct {
	body        []byte
	contentType string
	changes     uint64 // at which it was read
}

// tag names the bytes, whatever encodes them on the way.
func (e *encoded) tag() string {
	sum := sha256.Sum256(e.body)
	return `W/"` + hex.EncodeToString(sum[:16]) + `"`
}

// answerCache keeps the answers that were asked for last, up to cacheBytes.
type answerCache struct {
	mu    sync.Mutex
	known *simplelru.LRU[string, *encoded]
	bytes int
}

func newAnswerCache() *answerCache {
	c := &answerCache{}
	known, err := simplelru.NewLRU(1<<20, func(_ string, e *encoded) { c.bytes -= len(e.body) })
	if err != nil {
		panic(err) // the size is a positive constant
	}
	c.known = known
	return c
}

// get returns the answer that was read at so many changes.
func (c *answerCache) get(key string, changes uint64) (*encoded, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.known.Get(key)
	if ok && e.changes != changes {
		c.known.Remove(key)
		return nil, false
	}
	return e, ok
}

func (c *answerCache) put(key string, e *encoded) {
	if len(e.body) > cacheMost {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known.Remove(key)
	c.known.Add(key, e)
	for c.bytes += len(e.body); c.bytes > cacheBytes; {
		c.known.RemoveOldest()
	}
}

// cacheable says that an answer to r stays the same until something touches its days.
func (r *Request) cacheable() bool {
	return !r.Range.All && r.Explanation == nil && (r.Mode == "" || r.Mode == ModeExact) && r.Range.To.Before(r.Now.Add(-cacheOver))
}

// changes is how often the days of r's range, and of what it is compared with, were touched. Visits reach over whole days of the site.
func (s *Store) changes(ctx context.Context, r *Request) (changes uint64, err error) {
	const most = dayMS // that a day of a site begins before or ends after the day of UTC
	ranges := []Range{r.Range}
	if r.Compare != "" {
		ranges = append(ranges, r.Range.compared(r.Compare))
	}
	for _, part := range ranges {
		st := statement{
			"SELECT sum(changes)\nFROM touched\nWHERE site = {site:String} AND day >= {first:Date} AND day <= {last:Date}",
			[]param{{"site", r.Site}, {"first", dateParam(part.From.UnixMilli() - most)}, {"last", dateParam(part.To.UnixMilli() + most)}},
		}
		var some uint64
		if err := s.each(ctx, st, func(rows driver.Rows) error { return rows.Scan(&some) }); err != nil {
			return 0, fmt.Errorf("read changes: %w", err)
		}
		changes += some
	}
	return changes, nil
}
