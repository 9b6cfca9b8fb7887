package query

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/pagetally/pagetally/schema"
)

// Spans of Realtime, in minutes that include the running one.
const (
	spanNow  = 5  // visitors, top lists
	spanHalf = 30 // visitors
	spanHour = schema.HotMinutes
	// topNow bounds each top list.
	topNow = 10
)

// RealtimeResult is what happens on a site now.
type RealtimeResult struct {
	Site      string       `json:"site"`
	Visitors  SpanFigures  `json:"visitors"`
	Views     SpanFigures  `json:"views"`
	Minutes   []MinuteBar  `json:"minutes"` // 60 of them, the running one last
	Pages     []NowRow     `json:"pages"`   // of the last 5 minutes, by views
	Sources   []NowRow     `json:"sources"`
	Countries []NowRow     `json:"countries"`
	Meta      RealtimeMeta `json:"meta"`
}

// SpanFigures are a figure over the last 5 and 30 minutes.
type SpanFigures struct {
	Last5  int64 `json:"last_5_minutes"`
	Last30 int64 `json:"last_30_minutes"`
}

// MinuteBar is the views of one minute.
type MinuteBar struct {
	Start string `json:"start"`
	Views int64  `json:"views"`
}

// NowRow is a row of a top list. An empty value is a direct visit, or an unknown country.
type NowRow struct {
	Value string `json:"value"`
	Views int64  `json:"views"`
}

// RealtimeMeta says where a RealtimeResult comes from and what it is worth.
type RealtimeMeta struct {
	// Source is "hot" (Redis) or "exact" (ClickHouse, when Redis cannot answer or may lack a part of the last hour).
	Source string `json:"source"`
	// Reason tells why the answer is not from Redis.
	Reason string          `json:"reason,omitempty"`
	Exact  map[string]bool `json:"exact"`
	// ErrorBound is the greatest relative error usually met, where not exact.
	ErrorBound map[string]float64 `json:"error_bound"`
	AsOf       string             `json:"as_of"`
}

// hotSketchBound is the standard error of Redis' HyperLogLog, 0.81 %, three times.
const hotSketchBound = 0.025

// minuteCounts is what both sources know of the last hour.
type minuteCounts struct {
	views      [spanHour]int64 // the running minute last
	visitors5  int64
	visitors30 int64
	lists      map[string]map[string]int64 // views of the last 5 minutes by the prefix of a schema.HotLists and value
	source     string
	reason     string
}

func newMinuteCounts(source string) *minuteCounts {
	m := &minuteCounts{source: source, lists: make(map[string]map[string]int64, len(schema.HotLists))}
	for _, list := range schema.HotLists {
		m.lists[list.Prefix] = map[string]int64{}
	}
	return m
}

// Realtime reads a site's last hour: from Redis if it can answer for all of it, else from ClickHouse.
func (s *Server) Realtime(ctx context.Context, site string) (RealtimeResult, error) {
	now := s.cfg.Now()
	minute := now.Unix() / 60
	counts, err := s.cfg.Hot.read(ctx, site, minute)
	if err != nil {
		reason := err.Error()
		if !errors.Is(err, errNotComplete) && !errors.Is(err, errNoHot) {
			reason = "Redis does not answer"
			s.logFailure("realtime", err)
		}
		return s.cfg.Store.realtime(ctx, site, now, reason)
	}
	return counts.result(site, minute, now), nil
}

// Realtime reads a site's last hour from ClickHouse.
func (s *Store) Realtime(ctx context.Context, site string) (RealtimeResult, error) {
	return s.realtime(ctx, site, s.cfg.Now(), "")
}

func (s *Store) realtime(ctx context.Context, site string, now time.Time, reason string) (RealtimeResult, error) {
	minute := now.Unix() / 60
	counts, err := s.lastHour(ctx, site, minute)
	if err != nil {
		return RealtimeResult{}, err
	}
	counts.reason = reason
	return counts.result(site, minute, s.asOf()), nil
}

func (m *minuteCounts) result(site string, minute int64, asOf time.Time) RealtimeResult {
	exact := m.source == sourceExact
	r := RealtimeResult{
		Site: site, Visitors: SpanFigures{m.visitors5, m.visitors30}, Minutes: make([]MinuteBar, spanHour),
		Pages: topRows(m.lists[schema.HotPath]), Sources: topRows(m.lists[schema.HotSource]), Countries: topRows(m.lists[schema.HotCountry]),
		Meta: RealtimeMeta{
			Source: m.source, Reason: m.reason, AsOf: formatTime(asOf.UTC()), ErrorBound: map[string]float64{},
			Exact: map[string]bool{"views": exact, "visitors": exact},
		},
	}
	if !exact {
		r.Meta.ErrorBound["visitors"] = hotSketchBound
	}
	for i, views := range m.views {
		start := time.Unix((minute-spanHour+1+int64(i))*60, 0).UTC()
		r.Minutes[i] = MinuteBar{Start: formatTime(start), Views: views}
		if i >= spanHour-spanHalf {
			r.Views.Last30 += views
		}
		if i >= spanHour-spanNow {
			r.Views.Last5 += views
		}
	}
	return r
}

const (
	sourceHot   = "hot"
	sourceExact = "exact"
)

// topRows are the greatest of counts. What was taken back to zero is not shown.
func topRows(counts map[string]int64) []NowRow {
	rows := make([]NowRow, 0, len(counts))
	for value, views := range counts {
		if views > 0 {
			rows = append(rows, NowRow{value, views})
		}
	}
	slices.SortFunc(rows, func(a, b NowRow) int {
		return cmp.Or(cmp.Compare(b.Views, a.Views), cmp.Compare(a.Value, b.Value))
	})
	return rows[:min(len(rows), topNow)]
}

// realtime answers GET /v1/realtime?site=.
func (s *Server) realtime(c *fiber.Ctx) error {
	start := s.cfg.Now()
	result, err := func() (r RealtimeResult, err error) {
		domain, err := s.realtimeSite(c)
		if err != nil {
			return r, err
		}
		return s.Realtime(c.UserContext(), domain)
	}()
	return s.reply(c, "realtime", start, result, err)
}

// realtimeSite is the site that the caller asks for and may read.
func (s *Server) realtimeSite(c *fiber.Ctx) (string, error) {
	values := queryValues(c)
	if err := s.admit(c, values.Get("site")); err != nil {
		return "", err
	}
	p := parser{values: values}
	for name := range values {
		if name != "site" {
			return "", badParam(name, "unknown parameter; realtime takes site")
		}
	}
	site := p.site(s.cfg.Sites)
	return site.Domain, p.err
}
