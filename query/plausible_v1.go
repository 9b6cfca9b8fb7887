package query

import (
	"context"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/pagetally/pagetally/schema"
)

// Version 1 of Plausible's stats API: GET /api/v1/stats/..., with a question in parameters.

// plausibleV1Params are taken by every question, and by some.
var (
	plausibleV1Params = []string{"site_id", "period", "date", "from", "to", "metrics", "filters", "with_imported"}
	plausibleV1Own    = map[string][]string{
		"aggregate": {"compare"}, "timeseries": {"interval"}, "breakdown": {"property", "limit", "page"},
	}
)

// plausibleV1Question is a question of version 1.
type plausibleV1Question struct {
	plausibleQuestion
	values url.Values
	site   Site
	now    time.Time
	period string
}

// plausibleV1 is the way of each question: who may ask, what is asked, the answer.
func plausibleV1(s *Server, kind string, answer func(context.Context, *plausibleV1Question) (any, error)) fiber.Handler {
	return func(c *fiber.Ctx) error {
		start := s.cfg.Now()
		reply, err := func() (any, error) {
			values := queryValues(c)
			site, err := s.plausibleSite(c, values.Get("site_id"))
			if err != nil {
				return nil, err
			}
			p := parser{values: values}
			p.checkNames(kind, append(slices.Clone(plausibleV1Params), plausibleV1Own[kind]...))
			if p.err != nil {
				return nil, p.err
			}
			q := &plausibleV1Question{plausibleQuestion: plausibleQuestion{request: site.request(Top, start)}, values: values, site: site, now: start}
			if err := q.read(); err != nil {
				return nil, err
			}
			ctx, stop := whileConnected(c)
			defer stop()
			return answer(ctx, q)
		}()
		return s.replyPlausible(c, "plausible_"+kind, start, reply, err)
	}
}

// read reads what every question has.
func (q *plausibleV1Question) read() error {
	if err := q.readRange(); err != nil {
		return err
	}
	filters, err := readV1Filters(q.values.Get("filters"), q.site.Paths)
	if err != nil {
		return err
	}
	q.request.Filter = all(filters)
	return nil
}

// readMetrics reads the metrics, which comes after what they may depend on.
func (q *plausibleV1Question) readMetrics() error {
	names := []string{"visitors"}
	if v := q.values.Get("metrics"); v != "" {
		names = strings.Split(v, ",")
		for i := range names {
			names[i] = strings.TrimSpace(names[i])
		}
	}
	for _, name := range names {
		if _, ok := plausibleMetrics[name]; !ok || name == plausiblePercentage || strings.HasSuffix(name, "_revenue") || name == "group_conversion_rate" {
			return refusal("The metric `%.100s` is not recognized. Find valid metrics from the documentation: https://plausible.io/docs/stats-api#get-apiv1statsbreakdown", name)
		}
	}
	if err := q.set(names); err != nil {
		return err
	}
	return q.request.check()
}

// readRange reads period, date, from and to: the last days of a period end with the date.
func (q *plausibleV1Question) readRange() error {
	zone := q.site.Zone
	if zone == nil {
		zone = time.UTC
	}
	q.period = q.values.Get("period")
	if q.period == "" {
		q.period = "30d"
	}
	date := q.values.Get("date")
	if q.period == "custom" {
		return q.readCustom(date, zone)
	}
	day := dayOf(q.now, zone)
	if date != "" {
		var err error
		if day, err = time.Parse(time.DateOnly, date); err != nil {
			return refusal("Error parsing `date` parameter: %.100q. Please specify a valid date in ISO-8601 format.", date)
		}
	}
	firstOfMonth := Month.firstDay(day, 0)
	first, last := day, day
	switch q.period {
	case "day":
	case "7d":
		first = day.AddDate(0, 0, -6)
	case "30d":
		first = day.AddDate(0, 0, -29)
	case "month":
		first, last = firstOfMonth, firstOfMonth.AddDate(0, 1, -1)
	case "6mo":
		first, last = firstOfMonth.AddDate(0, -5, 0), firstOfMonth.AddDate(0, 1, -1)
	case "12mo":
		first, last = firstOfMonth.AddDate(0, -11, 0), firstOfMonth.AddDate(0, 1, -1)
	default:
		return refusal("Error parsing `period` parameter: invalid period `%.100s`. Please find accepted values in our docs: https://plausible.io/docs/stats-api#time-periods", q.period)
	}
	return q.setDays(first, last, zone)
}

func (q *plausibleV1Question) readCustom(date string, zone *time.Location) error {
	from, to, both := strings.Cut(date, ",")
	if date == "" {
		from, to, both = q.values.Get("from"), q.values.Get("to"), true
	}
	first, err1 := time.Parse(time.DateOnly, strings.TrimSpace(from))
	last, err2 := time.Parse(time.DateOnly, strings.TrimSpace(to))
	if !both || err1 != nil || err2 != nil {
		return refusal("Invalid format for `date` parameter. When using a custom period, please include two ISO-8601 formatted dates joined by a comma.")
	}
	return q.setDays(first, last, zone)
}

func (q *plausibleV1Question) setDays(first, last time.Time, zone *time.Location) error {
	if last.Before(first) {
		return refusal("Invalid `date` parameter: the range ends before it starts")
	}
	if first.Year() < firstYear || last.Year() > lastYear {
		return refusal("Invalid `date` parameter: years are from %d to %d", firstYear, lastYear)
	}
	q.request.Range = dayRange(first, last, zone)
	return nil
}

// unescapedBar separates values; \| is a bar within one.
var unescapedBar = regexp.MustCompile(`(?:[^|\\]|\\.)+|\\$`)

// readV1Filters reads prop==value, prop!=value, ==a|b, and wildcards, joined by semicolons.
func readV1Filters(text string, rules schema.PathRules) ([]Filter, error) {
	if text == "" {
		return nil, nil
	}
	var list []Filter
	for part := range strings.SplitSeq(text, ";") {
		f, err := readV1Filter(part)
		if err != nil {
			return nil, err
		}
		reader := filterReader{paths: rules}
		if err := reader.check(&f); err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

func readV1Filter(part string) (f Filter, err error) {
	name, value, equal := strings.Cut(part, "==")
	f.Op = Is
	if !equal {
		var differs bool
		if name, value, differs = strings.Cut(part, "!="); !differs {
			return f, refusal("Invalid filter %.100q: want property==value or property!=value", part)
		}
		f.Op = IsNot
	}
	if f.Dimension, err = plausibleFilterDimension(strings.TrimSpace(name)); err != nil {
		return f, err
	}
	for _, one := range unescapedBar.FindAllString(value, -1) {
		f.Values = append(f.Values, strings.TrimSpace(strings.ReplaceAll(one, `\|`, "|")))
	}
	wild := strings.Contains(value, "*")
	switch {
	case len(f.Values) == 0:
		return f, refusal("Invalid filter %.100q: it has no value", part)
	case f.Op == IsNot && (len(f.Values) > 1 || f.Dimension == dimGoal), wild && len(f.Values) > 1:
		return f, refusal("Invalid filter %.100q: neither != nor * goes with |, nor != with event:goal", part)
	case wild && f.Op == Is:
		f.Op = MatchesWildcard
	case wild:
		f.Op = MatchesWildcardNot
	}
	return f, nil
}

type plausibleV1Value struct {
	Value  any  `json:"value"`
	Change *any `json:"change,omitempty"`
}

func (s *Server) plausibleAggregate(ctx context.Context, q *plausibleV1Question) (any, error) {
	if err := q.readMetrics(); err != nil {
		return nil, err
	}
	compare := q.values.Get("compare")
	if compare != "" && compare != "previous_period" {
		return nil, refusal("Invalid compare %.100q: want previous_period", compare)
	}
	before := q.plausibleQuestion
	a, err := s.cfg.Store.plausible(ctx, &q.plausibleQuestion)
	if err != nil {
		return nil, err
	}
	values := map[string]plausibleV1Value{}
	for i, name := range q.metrics {
		values[name] = plausibleV1Value{Value: a.rows[0].metrics[i]}
	}
	if compare != "" {
		before.request.Range = q.request.Range.compared(ComparePrevious)
		previous, err := s.cfg.Store.plausible(ctx, &before)
		if err != nil {
			return nil, err
		}
		for i, name := range q.metrics {
			change := plausibleChange(name, previous.rows[0].metrics[i], a.rows[0].metrics[i])
			values[name] = plausibleV1Value{Value: values[name].Value, Change: &change}
		}
	}
	return fiber.Map{"results": values}, nil
}

// plausibleChange is in per cent of what was before; of rates that are per cents already, their difference. nil: there is nothing to compare.
func plausibleChange(name string, before, after any) any {
	old, ok1 := asNumber(before)
	value, ok2 := asNumber(after)
	switch {
	case !ok1 || !ok2:
		return nil
	case name == "bounce_rate" || name == plausibleConversion:
		return math.Round((value-old)*decimals) / decimals
	case old == 0 && value > 0:
		return 100
	case old == 0:
		return 0
	}
	return math.Round((value - old) / old * 100)
}

func asNumber(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

func (s *Server) plausibleTimeseries(ctx context.Context, q *plausibleV1Question) (any, error) {
	q.request.Question = Timeseries
	switch interval := q.values.Get("interval"); {
	case interval == "month":
		q.request.Interval = Month
	case interval == "day" || interval == "date":
		q.request.Interval = Day
	case interval != "":
		return nil, refusal("Invalid interval %.100q: want day or month", interval)
	case q.period == "day":
		q.request.Interval = Hour
	case q.period == "6mo" || q.period == "12mo":
		q.request.Interval = Month
	default:
		q.request.Interval = Day
	}
	q.dimensions = []plausibleDimension{{interval: q.request.Interval}}
	if err := q.readMetrics(); err != nil {
		return nil, err
	}
	a, err := s.cfg.Store.plausible(ctx, &q.plausibleQuestion)
	if err != nil {
		return nil, err
	}
	found := map[string][]any{}
	for _, row := range a.rows {
		found[row.dimensions[0]] = row.metrics
	}
	results := []map[string]any{}
	for _, bar := range q.request.Interval.bars(q.request.Range.From, q.request.Range.To, q.request.Range.Loc, q.request.WeekStart) {
		date := plausibleTime(q.request.Interval, bar.Start)
		row := map[string]any{"date": date}
		for i, name := range q.metrics {
			if metrics, ok := found[date]; ok {
				row[name] = metrics[i]
			} else {
				row[name] = a.value(name, &sums{})
			}
		}
		results = append(results, row)
	}
	return fiber.Map{"results": results}, nil
}

func (s *Server) plausibleBreakdown(ctx context.Context, q *plausibleV1Question) (any, error) {
	property := q.values.Get("property")
	d, err := readPlausibleDimension(property)
	switch {
	case property == "":
		return nil, refusal("The `property` parameter is required. Please provide at least one property to show a breakdown by.")
	case err != nil || d.dimension == "" || property == "event:hostname":
		return nil, refusal("Invalid property '%.100s'. Please provide a valid property for the breakdown endpoint: https://plausible.io/docs/stats-api#properties", property)
	}
	q.dimensions, q.request.Dimensions = []plausibleDimension{d}, []string{d.dimension}
	p := parser{values: q.values}
	q.request.Limit = p.number("limit", DefaultLimit, MaxLimit)
	q.request.Offset = (p.number("page", 1, MaxPage) - 1) * q.request.Limit
	if p.err != nil {
		return nil, p.err
	}
	if err := q.readMetrics(); err != nil {
		return nil, err
	}
	q.request.Order = []OrderBy{{By: string(q.request.Metrics[0]), Desc: true}}
	a, err := s.cfg.Store.plausible(ctx, &q.plausibleQuestion)
	if err != nil {
		return nil, err
	}
	key := property[strings.LastIndexByte(property, ':')+1:]
	results := []map[string]any{}
	for _, row := range a.rows {
		result := map[string]any{key: row.dimensions[0]}
		for i, name := range q.metrics {
			result[name] = row.metrics[i]
		}
		results = append(results, result)
	}
	return fiber.Map{"results": results}, nil
}

// plausibleRealtime is the number of visitors of the last five minutes, alone.
func (s *Server) plausibleRealtime(c *fiber.Ctx) error {
	start := s.cfg.Now()
	visitors, err := func() (int64, error) {
		site, err := s.plausibleSite(c, queryValues(c).Get("site_id"))
		if err != nil {
			return 0, err
		}
		now, err := s.Realtime(c.UserContext(), site.Domain)
		return now.Visitors.Last5, err
	}()
	if err != nil {
		return s.replyPlausible(c, "plausible_realtime", start, nil, err)
	}
	s.metrics.observe("plausible_realtime", "ok", s.cfg.Now().Sub(start))
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set(fiber.HeaderContentType, fiber.MIMEApplicationJSON)
	return c.SendString(strconv.FormatInt(visitors, 10))
}
