package query

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pagetally/pagetally/schema"
)

// Question is what is asked for.
type Question string

// The questions.
const (
	Count      Question = "count"      // one page or site as one row
	Totals     Question = "totals"     // each metric as one value
	Timeseries Question = "timeseries" // bars of an interval
	Top        Question = "top"        // the values of a dimension, the most viewed first
)

// Limits of a top list.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
	MaxPage      = 1000
)

// Request is a checked question. Parse makes it.
type Request struct {
	Question Question
	Site     string
	SiteZone *time.Location // in which visits are cut; nil: UTC
	Path     string         // page key; empty: every page
	Name     string         // event name; empty: every name
	Filter   *Filter        // nil: everything
	Goals    []Goal         // of the site
	Range    Range
	Metrics  []Metric // not empty, in the order in which they were asked for

	// Rows are grouped by the bars of Interval, if it is set, and by the values of Dimensions.
	Interval   Interval // of a time series empty until the range is known
	WeekStart  WeekStart
	Dimensions []string
	Order      []OrderBy // empty: by time, then by what counts most
	Limit      int       // rows; 0: no limit
	Offset     int
	CountRows  bool // how many rows there are without limit

	Compare Comparison // empty: none

	// Mode says where a Count may come from; the zero value is ModeExact.
	Mode Mode
	// Final reads sums with FINAL. Sums agree without it at any moment, whatever is merging; see Parse.
	Final bool
	// KeptSince is when the oldest raw events are of that the site keeps; zero: it keeps all.
	KeptSince time.Time
	// Now is when the question was asked: what lies after it is not over.
	Now time.Time
	// Explanation, if not nil, is told what was asked of the database.
	Explanation *Explanation
}

// OrderBy is a part of an order of rows: a metric, a dimension of the question, or OrderByTime.
type OrderBy struct {
	By   string
	Desc bool
}

// OrderByTime orders by the start of bars.
const OrderByTime = "time"

// ParamError is a parameter that cannot be answered; its text may be shown to whoever asked.
type ParamError struct {
	Field   string // parameter's name
	Message string
}

func (e *ParamError) Error() string { return e.Field + ": " + e.Message }

func badParam(field, format string, args ...any) error {
	return &ParamError{Field: field, Message: fmt.Sprintf(format, args...)}
}

// Site is what reading needs to know of a site.
type Site struct {
	Domain    string // as events carry it
	Zone      *time.Location
	Paths     schema.PathRules
	WeekStart WeekStart
	Public    bool // may be read without a key
	Badge     bool // its counts may be shown as badges, to anybody
	Goals     []Goal
	Retention int // days for which raw events are kept; 0: for ever
}

// Sites finds a site by the domain a caller wrote.
type Sites interface {
	ReadSite(domain string) (Site, bool)
}

// Parameters of every question, and those that only some take.
var (
	commonParams = []string{"site", "path", "name", "from", "to", "period", "tz", "metrics", "filters", "mode", "final", "explain"}
	ownParams    = map[Question][]string{
		Count:      nil,
		Totals:     {"compare"},
		Timeseries: {"interval", "week_start", "compare"},
		Top:        {"dimension", "limit", "page", "order"},
	}
)

// Params lists the parameters that q takes.
func Params(q Question) []string { return slices.Concat(commonParams, ownParams[q]) }

// Parse reads a question's parameters, asked at now. Every error is a *ParamError. Without from, to and period the range is all
// there is; without tz it is read in the site's zone, else UTC. Sums are read with FINAL unless final=0 says not to, which gives
// the same numbers sooner while a month is unmerged. Of a recent count only views are wanted unless metrics says otherwise.
func Parse(q Question, values url.Values, sites Sites, now time.Time) (Request, error) {
	p := parser{values: values}
	p.checkNames(string(q), Params(q))
	site := p.site(sites)
	r := site.request(q, now)
	r.Path = p.path(site.Paths)
	r.Name = p.name()
	r.Filter = p.filters(site.Paths)
	r.Range = p.timeRange(now, p.zone(site))
	r.Final = p.flag("final", true)
	if p.flag("explain", false) {
		r.Explanation = &Explanation{}
	}
	r.Mode = Mode(p.word("mode", string(ModeExact), string(ModeExact), string(ModeRecent), string(ModeAuto)))
	switch q {
	case Totals:
		r.Compare = p.comparison()
	case Timeseries:
		r.Interval = Interval(p.word("interval", "", names(intervals)...))
		r.WeekStart = p.weekStart(r.WeekStart)
		r.Compare = p.comparison()
	case Top:
		r.Dimensions = p.dimensions()
		r.Limit = p.number("limit", DefaultLimit, MaxLimit)
		r.Offset = (p.number("page", 1, MaxPage) - 1) * r.Limit
		r.CountRows = true
	}
	r.Metrics = p.metrics(&r)
	if q == Top {
		r.Order = p.order(&r)
	}
	if p.err == nil {
		p.err = r.check()
	}
	if p.err != nil {
		return Request{}, p.err
	}
	return r, nil
}

// request is a question about the site that says nothing yet.
func (s Site) request(q Question, now time.Time) Request {
	r := Request{Question: q, Site: s.Domain, SiteZone: s.Zone, WeekStart: s.WeekStart, Goals: s.Goals, Now: now}
	if s.Retention > 0 {
		r.KeptSince = now.AddDate(0, 0, -s.Retention)
	}
	return r
}

// check holds rules that join several parameters.
func (r *Request) check() error {
	if r.Compare != "" && r.Range.All {
		return badParam("compare", "needs a range: give from and to, or a period other than all")
	}
	for _, m := range r.Metrics {
		if err := r.checkMetric(m); err != nil {
			return err
		}
	}
	if r.Interval != "" && !r.Range.All {
		return checkBars(r.Interval, r.Range)
	}
	return nil
}

func (r *Request) checkMetric(m Metric) error {
	switch {
	case m == Views && r.Name != "" && r.Name != schema.PageView:
		return badParam("metrics", "views count page views only: with a name ask for events")
	case slices.Contains(ofPings, m) && (r.Filter.hasDone() || slices.ContainsFunc(r.dimensions(), ofVisit)):
		return badParam("metrics", "%s is of pages: it is not known by %s", m, "what visits have done")
	case slices.Contains(ofPings, m) && (r.Name != "" && r.Name != schema.PageView || slices.Contains(r.dimensions(), dimName) || slices.Contains(r.dimensions(), dimGoal)):
		return badParam("metrics", "%s is of pages, not of events or goals", m)
	case m == ConversionRate && !r.converts():
		return badParam("metrics", "conversion_rate needs a goal: filter or group by goal, or give the name of an event")
	}
	return nil
}

// dimensions are all that the request groups or filters by.
func (r *Request) dimensions() []string {
	return append(slices.Clone(r.Dimensions), r.Filter.dimensions()...)
}

// converts says that the request asks about a goal or a named event.
func (r *Request) converts() bool {
	used := r.dimensions()
	return r.Name != "" || slices.Contains(used, dimGoal) || slices.Contains(used, dimName)
}

func checkBars(i Interval, r Range) error {
	if bars := int64(r.To.Sub(r.From) / i.shortest()); bars > MaxBars {
		return badParam("interval", "the range has about %d bars of one %s, at most %d are answered: ask for a longer interval or a shorter range", bars, i, MaxBars)
	}
	return nil
}

// parser reads parameters and keeps the first error; after it, results are meaningless.
type parser struct {
	values url.Values
	err    error
}

func (p *parser) fail(field, format string, args ...any) {
	if p.err == nil {
		p.err = badParam(field, format, args...)
	}
}

// checkNames refuses parameters that would be ignored: a misspelt filter must not give the unfiltered number.
func (p *parser) checkNames(what string, allowed []string) {
	names := make([]string, 0, len(p.values))
	for name := range p.values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch {
		case !slices.Contains(allowed, name):
			p.fail(name, "unknown parameter; %s takes %s", what, strings.Join(allowed, ", "))
		case len(p.values[name]) > 1:
			p.fail(name, "given %d times", len(p.values[name]))
		case len(p.values[name]) == 1 && p.values[name][0] == "":
			p.fail(name, "is empty")
		}
	}
}

func (p *parser) site(sites Sites) Site {
	domain := p.values.Get("site")
	if domain == "" {
		p.fail("site", "is required")
		return Site{}
	}
	site, ok := sites.ReadSite(domain)
	if !ok {
		p.fail("site", "no such site: %.100q", domain)
	}
	return site
}

// path is normalised as an event's path is. The page that stands for folded ones keeps its name.
func (p *parser) path(rules schema.PathRules) string {
	path := p.values.Get("path")
	if path == "" || path == foldedPath {
		return path
	}
	return schema.PageKey(path, rules)
}

const foldedPath = "(other)"

func (p *parser) name() string {
	name := p.values.Get("name")
	if name == schema.Engagement {
		p.fail("name", "%s pings are no events of their own", schema.Engagement)
	}
	return name
}

func (p *parser) zone(site Site) *time.Location {
	name := p.values.Get("tz")
	if name == "" {
		if site.Zone != nil {
			return site.Zone
		}
		return time.UTC
	}
	loc, err := loadZone(name)
	if err != nil {
		p.fail("tz", "%.100q is no IANA time zone", name)
		return time.UTC
	}
	return loc
}

func (p *parser) flag(field string, absent bool) bool {
	v := p.values.Get(field)
	if v == "" {
		return absent
	}
	set, err := strconv.ParseBool(v)
	if err != nil {
		p.fail(field, "%.100q is neither 1 nor 0", v)
	}
	return set
}

// dimensions are a list with commas; names of properties may hold none.
func (p *parser) dimensions() []string {
	v := p.values.Get("dimension")
	if v == "" {
		p.fail("dimension", "is required: one or more of %s", strings.Join(dimensionNames(), ", "))
		return nil
	}
	var list []string
	for _, name := range strings.Split(v, ",") {
		name, err := parseDimension(strings.TrimSpace(name))
		switch {
		case err != nil:
			p.fail("dimension", "%s", err)
			return nil
		case slices.Contains(list, name):
			p.fail("dimension", "%s is given twice", name)
		}
		list = append(list, name)
	}
	if len(list) > maxGroupings {
		p.fail("dimension", "%d are given, at most %d can be asked for", len(list), maxGroupings)
	}
	return list
}

// filters are a JSON list of filters, all of which must hold.
func (p *parser) filters(rules schema.PathRules) *Filter {
	v := p.values.Get("filters")
	if v == "" {
		return nil
	}
	reader := filterReader{dimension: parseDimension, paths: rules}
	list, err := reader.list([]byte(v), 1)
	if err != nil {
		p.fail("filters", "%s", err)
		return nil
	}
	return all(list)
}

// order reads names of metrics and dimensions, each with a minus before it to be turned round: numbers are ordered from the greatest,
// values from the first.
func (p *parser) order(r *Request) []OrderBy {
	v := p.values.Get("order")
	if v == "" {
		return nil
	}
	var list []OrderBy
	for _, name := range strings.Split(v, ",") {
		name, turned := strings.CutPrefix(strings.TrimSpace(name), "-")
		isMetric := slices.Contains(r.Metrics, Metric(name))
		if !isMetric && !slices.Contains(r.Dimensions, name) {
			p.fail("order", "%.100q is neither a metric nor a dimension of the question", name)
			return nil
		}
		list = append(list, OrderBy{By: name, Desc: isMetric != turned})
	}
	return list
}

func (p *parser) comparison() Comparison {
	return Comparison(p.word("compare", "", names(comparisons)...))
}

func (p *parser) weekStart(absent WeekStart) WeekStart {
	switch p.word("week_start", "", "monday", "sunday") {
	case "monday":
		return WeekStart(1)
	case "sunday":
		return WeekStart(7)
	}
	return absent
}

func (p *parser) number(field string, absent, most int) int {
	v := p.values.Get(field)
	if v == "" {
		return absent
	}
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > most {
		p.fail(field, "%.100q is not a number from 1 to %d", v, most)
	}
	return n
}

// metrics are by default the count that fits the question, and visitors.
func (p *parser) metrics(r *Request) []Metric {
	custom := r.Name != "" && r.Name != schema.PageView
	v := p.values.Get("metrics")
	if v == "" {
		if custom || slices.Contains(r.Dimensions, dimName) || slices.Contains(r.Dimensions, dimGoal) {
			return []Metric{Events, Visitors}
		}
		if r.Question == Count && r.Mode == ModeRecent {
			return []Metric{Views}
		}
		return []Metric{Views, Visitors}
	}
	var asked []Metric
	for _, name := range strings.Split(v, ",") {
		m := Metric(strings.TrimSpace(name))
		switch {
		case !slices.Contains(metrics, m):
			p.fail("metrics", "%.100q is not one of %s", string(m), strings.Join(names(metrics), ", "))
		case slices.Contains(asked, m):
			p.fail("metrics", "%s is given twice", m)
		}
		asked = append(asked, m)
		if p.err != nil {
			return nil
		}
	}
	return asked
}

// word reads one out of a list.
func (p *parser) word(field, absent string, allowed ...string) string {
	v := p.values.Get(field)
	if v == "" {
		return absent
	}
	if !slices.Contains(allowed, v) {
		p.fail(field, "%.100q is not one of %s", v, strings.Join(allowed, ", "))
	}
	return v
}

func names[S ~string](words []S) []string {
	names := make([]string, len(words))
	for i, w := range words {
		names[i] = string(w)
	}
	return names
}
