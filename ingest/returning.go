package ingest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"
)

// Totals reads the exact number of views of a page out of the tables.
type Totals interface {
	// Total returns the views that the tables hold. asOf is when the oldest event was journaled that is in flight, or now.
	Total(ctx context.Context, site, path string) (views int64, asOf time.Time, err error)
}

const (
	maxReturned    = 100                    // pages of a request whose counts are returned
	returnAtOnce   = 4                      // of them read at once
	returnTimeout  = 2 * time.Second        // for all of them
	returnPatience = 250 * time.Millisecond // for segments that are on their way
	returnTries    = 3
)

// itemCount is an item's page and its views, this request's included.
type itemCount struct {
	Index int    `json:"index"`
	Path  string `json:"path"`
	Views int64  `json:"views"`
}

// countMeta says what the counts are worth.
type countMeta struct {
	Exact map[string]bool `json:"exact,omitempty"`
	// OffBy is how far a count that is not exact may be off, in views; nothing when that is not known.
	OffBy map[string]int64 `json:"off_by,omitempty"`
	// AsOf: every event that this node acknowledged before it is in the counts.
	AsOf        string `json:"as_of,omitempty"`
	Unavailable string `json:"unavailable,omitempty"` // why there are no counts
}

// counted is an accepted item whose page's count is to be returned.
type counted struct {
	index int
	page  page
}

// pageCount is the count of a page. Without exact it may be off by off, or by an unknown number when off is negative.
type pageCount struct {
	views int64
	exact bool
	off   int64
	asOf  time.Time
}

// returner makes the counts that POST /v1/events?return=count answers.
type returner struct {
	totals  Totals
	pending *Pending
	flight  singleflight.Group
}

// returnOf reads ?return=count.
func returnOf(c *fiber.Ctx) (bool, error) {
	switch c.Query("return") {
	case "":
		return false, nil
	case "count":
		return true, nil
	}
	return false, badRequest("return", "want count")
}

// Reasons why no counts are returned. The events are accepted all the same.
var (
	errNoTotals     = errors.New("this server returns no counts")
	errTooManyPages = errors.New("counts of at most " + strconv.Itoa(maxReturned) + " pages are returned")
	errCountKey     = errors.New("counts of a site that is not public need a key")
)

// returnCounts completes the reply with the counts of the accepted items' pages.
func (s *Server) returnCounts(b *batch, reply *nativeReply) {
	reply.Counts, reply.Meta = []itemCount{}, &countMeta{}
	counts, err := s.countsOf(b)
	if err != nil {
		reply.Meta.Unavailable = shownReason(err)
		s.metrics.returned.WithLabelValues("unavailable").Inc()
		return
	}
	all := pageCount{exact: true, asOf: s.pending.now()}
	for _, item := range b.counted {
		c := counts[item.page]
		reply.Counts = append(reply.Counts, itemCount{item.index, item.page.path, c.views})
		all.join(c)
	}
	outcome := "exact"
	if !all.exact {
		outcome = "approximate"
	}
	s.metrics.returned.WithLabelValues(outcome).Inc()
	reply.Meta.Exact = map[string]bool{"views": all.exact}
	reply.Meta.AsOf = all.asOf.UTC().Format("2006-01-02T15:04:05.999Z07:00")
	if !all.exact && all.off >= 0 {
		reply.Meta.OffBy = map[string]int64{"views": all.off}
	}
}

// join makes c's worth that of the worse.
func (c *pageCount) join(other pageCount) {
	c.exact = c.exact && other.exact
	if other.asOf.Before(c.asOf) {
		c.asOf = other.asOf
	}
	if c.off < 0 || other.off < 0 {
		c.off = -1
		return
	}
	c.off = max(c.off, other.off)
}

// shownReason keeps the server's own words inside.
func shownReason(err error) string {
	if errors.Is(err, errNoTotals) || errors.Is(err, errTooManyPages) || errors.Is(err, errCountKey) {
		return err.Error()
	}
	return "the tables cannot be read now"
}

func (s *Server) countsOf(b *batch) (map[page]pageCount, error) {
	if s.returns == nil {
		return nil, errNoTotals
	}
	counts := make(map[page]pageCount)
	for i, site := range b.sites {
		if !b.rights.keyed && !site.Public && !site.Badge {
			return nil, errCountKey
		}
		if counts[b.counted[i].page] = (pageCount{}); len(counts) > maxReturned {
			return nil, errTooManyPages
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), returnTimeout)
	defer cancel()
	return s.returns.countAll(ctx, counts)
}

func (r *returner) countAll(ctx context.Context, counts map[page]pageCount) (map[page]pageCount, error) {
	pages := make([]page, 0, len(counts))
	for p := range counts {
		pages = append(pages, p)
	}
	found := make([]pageCount, len(pages))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(returnAtOnce)
	for i, p := range pages {
		group.Go(func() (err error) {
			found[i], err = r.count(ctx, p)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i, p := range pages {
		counts[p] = found[i]
	}
	return counts, nil
}

// count adds the page's pending views to what the tables hold. The sum is right when no segment with views of the page reached the
// tables while they were read: none was on its way, and none settled meanwhile. If one did, it is tried again once that is over.
func (r *returner) count(ctx context.Context, p page) (pageCount, error) {
	patience, cancel := context.WithTimeout(ctx, returnPatience)
	defer cancel()
	for try := 1; ; try++ {
		before := r.pending.look(p)
		asked := r.pending.now()
		views, asOf, err := r.total(ctx, p, before.epoch)
		if err != nil {
			return pageCount{}, err
		}
		after := r.pending.look(p)
		settled := after.epoch != before.epoch
		if (settled || after.doubtful != 0) && try < returnTries && patience.Err() == nil {
			if !settled {
				await(patience, after.changed)
			}
			continue
		}
		c := pageCount{views: views + after.n, asOf: asked, off: after.doubtful + after.ids}
		if asOf.Before(after.since) {
			c.asOf, c.off = asOf, -1 // there are views that were journaled before Pending began
		}
		if settled || after.partial {
			c.off = -1
		}
		c.exact = c.off == 0
		return r.pending.tell(p, c, after), nil
	}
}

func await(ctx context.Context, changed <-chan struct{}) {
	select {
	case <-changed:
	case <-ctx.Done():
	}
}

// tableTotal is what the tables hold.
type tableTotal struct {
	views int64
	asOf  time.Time
}

// total reads the tables once for all who ask in the same epoch: whoever joins sees the tables as nothing has settled since.
func (r *returner) total(ctx context.Context, p page, epoch uint64) (views int64, asOf time.Time, err error) {
	key := strings.Join([]string{p.site, p.path, strconv.FormatUint(epoch, 10)}, "\x00")
	done := r.flight.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
		defer cancel()
		views, asOf, err := r.totals.Total(ctx, p.site, p.path)
		return tableTotal{views, asOf}, err
	})
	select {
	case result := <-done:
		if result.Err != nil {
			return 0, time.Time{}, result.Err
		}
		t := result.Val.(tableTotal)
		return t.views, t.asOf, nil
	case <-ctx.Done():
		return 0, time.Time{}, ctx.Err()
	}
}
