package query

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"
)

// plausibleQuestion is a question in Plausible's terms, of either version of its stats API.
type plausibleQuestion struct {
	request    Request
	metrics    []string // as asked for
	dimensions []plausibleDimension
}

// plausibleAnswer is the answer in the order of the question.
type plausibleAnswer struct {
	groups   *groups
	rows     []plausibleRow
	visitors int64 // of the whole range, if a metric needs them
	could    int64 // visitors of the whole range, with or without a conversion
}

type plausibleRow struct {
	dimensions []string
	metrics    []any
}

// set gives the request its metrics, and what is needed to make others.
func (q *plausibleQuestion) set(names []string) error {
	q.metrics = names
	for i, name := range names {
		m, ok := plausibleMetrics[name]
		switch {
		case !ok:
			return refusal("Unknown metric %.100q", name)
		case slices.Contains(names[:i], name):
			return refusal("Metrics cannot be queried multiple times: %s", name)
		case m != "" && !q.request.asks(m):
			q.request.Metrics = append(q.request.Metrics, m)
		}
	}
	if len(q.request.Metrics) == 0 {
		q.request.Metrics = []Metric{Visitors}
	}
	if (slices.Contains(names, plausibleConversion) || slices.Contains(names, "group_conversion_rate")) && !q.request.converts() {
		return refusal("Metric conversion_rate can only be queried with event:goal filters or dimensions")
	}
	if slices.Contains(names, plausiblePercentage) && len(q.dimensions) == 0 {
		return refusal("Metric percentage can only be queried with dimensions")
	}
	return nil
}

// plausible answers q.
func (s *Store) plausible(ctx context.Context, q *plausibleQuestion) (*plausibleAnswer, error) {
	if err := s.resolve(ctx, &q.request); err != nil {
		return nil, err
	}
	if err := q.timeDimension(); err != nil {
		return nil, err
	}
	g, err := s.groupsOf(ctx, &q.request)
	if err != nil {
		return nil, err
	}
	a := &plausibleAnswer{groups: g}
	if slices.Contains(q.metrics, plausibleConversion) {
		base := q.request.notConverting()
		if a.could, err = s.allVisitors(ctx, base); err != nil {
			return nil, err
		}
	}
	if slices.Contains(q.metrics, plausiblePercentage) {
		if a.visitors, err = s.allVisitors(ctx, q.request); err != nil {
			return nil, err
		}
	}
	for _, row := range q.inOrder(g) {
		a.rows = append(a.rows, q.row(a, row))
	}
	return a, nil
}

// allVisitors are those of r's whole range, whatever it groups by.
func (s *Store) allVisitors(ctx context.Context, r Request) (int64, error) {
	r.Interval, r.Dimensions, r.Order, r.Limit, r.Offset, r.CountRows, r.Metrics = "", nil, nil, 0, 0, false, []Metric{Visitors}
	g, err := s.groupsOf(ctx, &r)
	if err != nil {
		return 0, err
	}
	return g.alone().visitors, nil
}

// timeDimension finds the interval of "time" once the range is known.
func (q *plausibleQuestion) timeDimension() error {
	for i, d := range q.dimensions {
		if d.dimension != "" {
			continue
		}
		if d.auto {
			q.dimensions[i].interval = plausibleInterval(q.request.Range)
		}
		q.request.Interval = q.dimensions[i].interval
		return checkBars(q.request.Interval, q.request.Range)
	}
	return nil
}

// plausibleInterval suits a range: hours of a day, days of up to six months, months beyond.
func plausibleInterval(r Range) Interval {
	switch length := r.To.Sub(r.From); {
	case length <= 49*time.Hour:
		return Hour
	case length < 180*24*time.Hour:
		return Day
	default:
		return Month
	}
}

// inOrder are the rows, ordered here if no statement did it: without other dimensions than time.
func (q *plausibleQuestion) inOrder(g *groups) []*group {
	if len(q.request.Dimensions) > 0 {
		return g.rows
	}
	if len(q.dimensions) == 0 {
		return []*group{g.at(0, nil, true)} // without events, too
	}
	g.cut()
	return g.rows
}

func (q *plausibleQuestion) row(a *plausibleAnswer, g *group) plausibleRow {
	row := plausibleRow{dimensions: []string{}, metrics: []any{}}
	values := 0
	for _, d := range q.dimensions {
		if d.dimension == "" {
			row.dimensions = append(row.dimensions, plausibleTime(d.interval, time.Unix(int64(g.start), 0).In(q.request.Range.Loc)))
			continue
		}
		row.dimensions = append(row.dimensions, d.label(g.values[values]))
		values++
	}
	for _, name := range q.metrics {
		row.metrics = append(row.metrics, a.value(name, &g.sums))
	}
	return row
}

// value of one of Plausible's metrics: a number, or nil for a rate of nothing.
func (a *plausibleAnswer) value(name string, s *sums) any {
	const percent = 100
	switch name {
	case plausibleConversion:
		return plausibleRate(name, rateOf(percent*float64(s.visitors), float64(a.could)))
	case plausiblePercentage:
		return plausibleRate(name, rateOf(percent*float64(s.visitors), float64(a.visitors)))
	}
	m := plausibleMetrics[name]
	switch {
	case m == "":
		return nil
	case m.isRate():
		return plausibleRate(name, s.rate(m))
	}
	return s.count(m)
}

func plausibleRate(name string, r Rate) any {
	switch {
	case !r.Valid:
		return nil
	case slices.Contains(wholeNumbers, name):
		return int64(math.Round(r.Value))
	}
	return r.Value
}

// plausibleTime names a bar in the zone of the question.
func plausibleTime(i Interval, start time.Time) string {
	if i == Minute || i == Hour {
		return start.Format(time.DateTime)
	}
	return start.Format(time.DateOnly)
}

// plausibleError is how Plausible says that a question is wrong.
type plausibleError struct {
	Error string `json:"error"`
}

// replyPlausible sends an answer, or an error in Plausible's shape.
func (s *Server) replyPlausible(c *fiber.Ctx, question string, start time.Time, answer any, err error) error {
	c.Set(fiber.HeaderCacheControl, "no-store")
	if err == nil {
		s.metrics.observe(question, "ok", s.cfg.Now().Sub(start))
		return c.JSON(answer)
	}
	e := s.failed(c, question, start, err)
	message := e.Message
	if e.Field != "" {
		message = e.Field + ": " + message
	}
	return c.Status(e.status).JSON(plausibleError{message})
}

// plausibleSite finds the site that site_id names, for a caller who may read it.
func (s *Server) plausibleSite(c *fiber.Ctx, domain string) (Site, error) {
	if domain == "" {
		return Site{}, &httpError{status: fiber.StatusBadRequest, Code: "bad_parameter", Message: "Missing site ID. Please provide the required site_id parameter with your request."}
	}
	refused := &httpError{
		status: fiber.StatusUnauthorized, Code: "unauthorized",
		Message: "Invalid API key or site ID. Please make sure you're using a valid API key with access to the site you've requested.",
	}
	if err := s.admit(c, domain); err != nil {
		var e *httpError
		if errors.As(err, &e) && e.status == fiber.StatusTooManyRequests {
			return Site{}, e
		}
		return Site{}, refused
	}
	site, ok := s.cfg.Sites.ReadSite(domain)
	if !ok {
		return Site{}, refused
	}
	return site, nil
}

// refusal is a 400 with a message for whoever asked.
func refusal(format string, args ...any) error {
	return &httpError{status: fiber.StatusBadRequest, Code: "bad_parameter", Message: fmt.Sprintf(format, args...)}
}
