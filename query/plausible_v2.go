package query

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"
)

// Version 2 of Plausible's stats API: POST /api/v2/query, with a question in JSON.

// plausibleSchema describes the question, and is what it is tested against.
//
//go:embed plausible_query.schema.json
var plausibleSchema []byte

// plausibleBody is the question as it is sent; keys that are not here are refused.
type plausibleBody struct {
	SiteID     string              `json:"site_id"`
	Metrics    []string            `json:"metrics"`
	DateRange  json.RawMessage     `json:"date_range"`
	Dimensions []string            `json:"dimensions"`
	Filters    []json.RawMessage   `json:"filters"`
	OrderBy    [][]string          `json:"order_by"`
	Include    plausibleInclude    `json:"include"`
	Pagination plausiblePagination `json:"pagination"`
}

type plausibleInclude struct {
	Imports    bool `json:"imports"`
	TimeLabels bool `json:"time_labels"`
	TotalRows  bool `json:"total_rows"`
}

type plausiblePagination struct {
	Limit  *int `json:"limit"`
	Offset int  `json:"offset"`
}

// plausibleLimit is the greatest number of rows of an answer.
const plausibleLimit = 10_000

// plausibleReply is the answer to a plausibleBody.
type plausibleReply struct {
	Results []plausibleResult `json:"results"`
	Meta    map[string]any    `json:"meta"`
	Query   plausibleEcho     `json:"query"`
}

type plausibleResult struct {
	Dimensions []string `json:"dimensions"`
	Metrics    []any    `json:"metrics"`
}

// plausibleEcho is the question with what it left out.
type plausibleEcho struct {
	SiteID     string            `json:"site_id"`
	Metrics    []string          `json:"metrics"`
	DateRange  [2]string         `json:"date_range"`
	Filters    []json.RawMessage `json:"filters"`
	Dimensions []string          `json:"dimensions"`
	OrderBy    [][]string        `json:"order_by"`
	Include    map[string]bool   `json:"include"`
	Pagination map[string]int    `json:"pagination"`
}

func (s *Server) plausibleQuery(c *fiber.Ctx) error {
	const question = "plausible_query"
	start := s.cfg.Now()
	reply, err := s.answerPlausibleQuery(c, start)
	return s.replyPlausible(c, question, start, reply, err)
}

func (s *Server) answerPlausibleQuery(c *fiber.Ctx, now time.Time) (*plausibleReply, error) {
	var body plausibleBody
	if err := decodeStrict(c.Body(), &body); err != nil {
		return nil, refusal("Invalid query: %s", err)
	}
	site, err := s.plausibleSite(c, body.SiteID)
	if err != nil {
		return nil, err
	}
	q, err := body.question(site, now)
	if err != nil {
		return nil, err
	}
	ctx, stop := whileConnected(c)
	defer stop()
	a, err := s.cfg.Store.plausible(ctx, q)
	if err != nil {
		return nil, err
	}
	return body.reply(q, a), nil
}

// question checks the body and puts it in this package's terms.
func (b *plausibleBody) question(site Site, now time.Time) (*plausibleQuestion, error) {
	q := &plausibleQuestion{request: site.request(Top, now)}
	r := &q.request
	var err error
	if r.Range, err = b.dateRange(site, now); err != nil {
		return nil, err
	}
	if q.dimensions, err = b.dimensions(); err != nil {
		return nil, err
	}
	for _, d := range q.dimensions {
		if d.dimension != "" {
			r.Dimensions = append(r.Dimensions, d.dimension)
		}
	}
	if r.Filter, err = b.filters(site); err != nil {
		return nil, err
	}
	if len(b.Metrics) == 0 {
		return nil, refusal("metrics: at least one is required")
	}
	if err := q.set(b.Metrics); err != nil {
		return nil, err
	}
	if r.Order, err = b.order(q); err != nil {
		return nil, err
	}
	r.Limit, r.Offset, r.CountRows = plausibleLimit, b.Pagination.Offset, b.Include.TotalRows
	if b.Pagination.Limit != nil {
		r.Limit = *b.Pagination.Limit
	}
	if r.Limit < 1 || r.Limit > plausibleLimit || r.Offset < 0 {
		return nil, refusal("pagination: limit is from 1 to %d and offset from 0", plausibleLimit)
	}
	if b.Include.TimeLabels && !slices.ContainsFunc(q.dimensions, func(d plausibleDimension) bool { return d.dimension == "" }) {
		return nil, refusal("Invalid include.time_labels: requires a time dimension")
	}
	return q, r.check()
}

// dateRange is a period, or two dates or instants, both included.
func (b *plausibleBody) dateRange(site Site, now time.Time) (Range, error) {
	zone := site.Zone
	if zone == nil {
		zone = time.UTC
	}
	var period string
	if json.Unmarshal(b.DateRange, &period) == nil {
		if r, ok := periodRange(period, now, zone); ok && period != "realtime" {
			return r, nil
		}
		return Range{}, refusal("Invalid date_range %.100q", period)
	}
	var ends []string
	if err := json.Unmarshal(b.DateRange, &ends); err != nil || len(ends) != 2 {
		return Range{}, refusal("Invalid date_range %.100s: want a period, or two dates", b.DateRange)
	}
	p := parser{}
	r := p.fromTo(ends[0], ends[1], now, zone)
	if p.err != nil {
		return Range{}, refusal("Invalid date_range: %s", p.err)
	}
	return r, nil
}

func (b *plausibleBody) dimensions() ([]plausibleDimension, error) {
	var list []plausibleDimension
	times := 0
	for i, name := range b.Dimensions {
		d, err := readPlausibleDimension(name)
		switch {
		case err != nil:
			return nil, err
		case slices.Contains(b.Dimensions[:i], name):
			return nil, refusal("Some dimensions are listed multiple times: %s", name)
		case d.dimension == "":
			times++
		}
		list = append(list, d)
	}
	if times > 1 || len(list) > maxGroupings {
		return nil, refusal("dimensions: at most one of time and %d in all", maxGroupings)
	}
	return list, nil
}

func (b *plausibleBody) filters(site Site) (*Filter, error) {
	reader := filterReader{dimension: plausibleFilterDimension, paths: site.Paths}
	var list []Filter
	for _, text := range b.Filters {
		if isSegment(text) {
			return nil, refusal("Invalid filters: this site has no segments")
		}
		f, err := reader.read(text, 1)
		if err != nil {
			return nil, refusal("Invalid filters: %s", err)
		}
		list = append(list, f)
	}
	filter := all(list)
	var wrong error
	filter.leaves(func(leaf *Filter, _ bool) {
		if leaf.Dimension == dimGoal && leaf.Op != Is && leaf.Op != Contains && wrong == nil {
			wrong = refusal("Invalid filters: event:goal takes is and contains, not %s", leaf.Op)
		}
	})
	return filter, wrong
}

func isSegment(text json.RawMessage) bool {
	var parts []json.RawMessage
	return json.Unmarshal(text, &parts) == nil && len(parts) == 3 && string(parts[1]) == `"segment"`
}

// order is by time and the first metric unless the body says otherwise.
func (b *plausibleBody) order(q *plausibleQuestion) ([]OrderBy, error) {
	var order []OrderBy
	if len(b.OrderBy) == 0 {
		for i, d := range q.dimensions {
			if d.dimension == "" {
				order = append(order, OrderBy{By: OrderByTime})
				b.OrderBy = append(b.OrderBy, []string{b.Dimensions[i], "asc"})
			}
		}
		b.OrderBy = append(b.OrderBy, []string{b.Metrics[0], "desc"})
		return append(order, OrderBy{By: string(q.orderMetric(b.Metrics[0])), Desc: true}), nil
	}
	for _, part := range b.OrderBy {
		if len(part) != 2 || part[1] != "asc" && part[1] != "desc" {
			return nil, refusal("Invalid order_by %q: want [metric or dimension, \"asc\" or \"desc\"]", part)
		}
		by, err := b.orderBy(q, part[0])
		if err != nil {
			return nil, err
		}
		order = append(order, OrderBy{By: by, Desc: part[1] == "desc"})
	}
	return order, nil
}

func (b *plausibleBody) orderBy(q *plausibleQuestion, name string) (string, error) {
	if slices.Contains(b.Metrics, name) {
		return string(q.orderMetric(name)), nil
	}
	i := slices.Index(b.Dimensions, name)
	switch {
	case i < 0:
		return "", refusal("Invalid order_by entry %.100q: is neither a queried metric nor dimension", name)
	case q.dimensions[i].dimension == "":
		return OrderByTime, nil
	}
	return q.dimensions[i].dimension, nil
}

// orderMetric orders like one of Plausible's metrics: shares of all visitors as visitors do.
func (q *plausibleQuestion) orderMetric(name string) Metric {
	if m := plausibleMetrics[name]; m != "" {
		return m
	}
	return q.request.Metrics[0]
}

// reply puts an answer in Plausible's shape.
func (b *plausibleBody) reply(q *plausibleQuestion, a *plausibleAnswer) *plausibleReply {
	r := &q.request
	reply := &plausibleReply{
		Results: []plausibleResult{}, Meta: map[string]any{},
		Query: plausibleEcho{
			SiteID: r.Site, Metrics: b.Metrics, DateRange: plausibleEnds(r.Range), Filters: append([]json.RawMessage{}, b.Filters...),
			Dimensions: append([]string{}, b.Dimensions...), OrderBy: b.OrderBy,
			Include:    map[string]bool{"imports": b.Include.Imports, "time_labels": b.Include.TimeLabels, "total_rows": b.Include.TotalRows},
			Pagination: map[string]int{"limit": r.Limit, "offset": r.Offset},
		},
	}
	for _, row := range a.rows {
		reply.Results = append(reply.Results, plausibleResult{row.dimensions, row.metrics})
	}
	if b.Include.Imports {
		reply.Meta["imports_included"] = false
		reply.Meta["imports_skip_reason"] = "no_imported_data"
	}
	if b.Include.TotalRows {
		reply.Meta["total_rows"] = a.groups.total
	}
	if b.Include.TimeLabels {
		labels := []string{}
		for _, bar := range r.Interval.bars(r.Range.From, r.Range.To, r.Range.Loc, r.WeekStart) {
			labels = append(labels, plausibleTime(r.Interval, bar.Start))
		}
		reply.Meta["time_labels"] = labels
	}
	if warnings := b.warnings(a); len(warnings) > 0 {
		reply.Meta["metric_warnings"] = warnings
	}
	return reply
}

// warnings say what is not as exact as it looks.
func (b *plausibleBody) warnings(a *plausibleAnswer) map[string]any {
	warnings := map[string]any{}
	most := max(a.groups.mostVisitors(), a.could, a.visitors)
	bound := a.groups.plan.sketch
	for _, name := range b.Metrics {
		m := plausibleMetrics[name]
		switch {
		case m == "":
			warnings[name] = map[string]string{"code": "no_revenue_goals_matching", "warning": "Revenue is not kept."}
		case (m == Visitors || m == ConversionRate) && !bound.exact(most):
			warnings[name] = map[string]string{"code": "approximate", "warning": fmt.Sprintf("Visitors are approximate, within %.1f %%.", bound.bound*100)}
		}
	}
	return warnings
}

// plausibleEnds are the first and the last second of a range.
func plausibleEnds(r Range) [2]string {
	last := r.To.Add(-time.Second)
	if r.first.IsZero() || last.Before(r.From) {
		last = r.To
	}
	return [2]string{r.From.Format(time.RFC3339), last.Format(time.RFC3339)}
}

func (s *Server) plausibleQuerySchema(c *fiber.Ctx) error {
	c.Set(fiber.HeaderContentType, "application/schema+json")
	c.Set(fiber.HeaderCacheControl, "public, max-age=3600")
	return c.Send(plausibleSchema)
}
