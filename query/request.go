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
	Path     string // page key; empty: every page
	Name     string // event name; empty: every name
	Range    Range
	Metrics  []Metric // not empty, in the order in which they were asked for

	Interval Interval // time series; empty until the range is known
	// WeekStart is where weekly bars are cut, which is the site's to say.
	WeekStart WeekStart
	Compare   Comparison // totals; empty: none

	Dimension string // top lists
	Limit     int
	Page      int // from 1

	// Final reads sums with FINAL. Sums agree without it at any moment, whatever is merging; see Parse.
	Final bool
	// Now is when the question was asked: what lies after it is not over.
	Now time.Time
}

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
}

// Sites finds a site by the domain a caller wrote.
type Sites interface {
	ReadSite(domain string) (Site, bool)
}

// Parameters of every question, and those that only some take.
var (
	commonParams = []string{"site", "path", "name", "from", "to", "period", "tz", "metrics", "mode", "final"}
	ownParams    = map[Question][]string{
		Count:      nil,
		Totals:     {"compare"},
		Timeseries: {"interval"},
		Top:        {"dimension", "limit", "page"},
	}
)

// Params lists the parameters that q takes.
func Params(q Question) []string { return slices.Concat(commonParams, ownParams[q]) }

// Parse reads a question's parameters, asked at now. Every error is a *ParamError. Without from, to and period the range is all
// there is; without tz it is read in the site's zone, else UTC. Sums are read with FINAL unless final=0 says not to, which gives
// the same numbers sooner while a month is unmerged. Every mode (exact, recent, auto) is answered exactly, and Meta.Source says so.
func Parse(q Question, values url.Values, sites Sites, now time.Time) (Request, error) {
	p := parser{values: values}
	p.checkNames(string(q), Params(q))
	site := p.site(sites)
	r := Request{Question: q, Site: site.Domain, WeekStart: site.WeekStart, Now: now}
	r.Path = p.path(site.Paths)
	r.Name = p.name()
	r.Range = p.timeRange(now, p.zone(site))
	r.Final = p.final()
	p.word("mode", "exact", "exact", "recent", "auto")
	switch q {
	case Totals:
		r.Compare = Comparison(p.word("compare", "", names(comparisons)...))
	case Timeseries:
		r.Interval = Interval(p.word("interval", "", names(intervals)...))
	case Top:
		r.Dimension = p.dimension()
		r.Limit = p.number("limit", DefaultLimit, MaxLimit)
		r.Page = p.number("page", 1, MaxPage)
	}
	r.Metrics = p.metrics(&r)
	if p.err == nil {
		p.err = r.check()
	}
	if p.err != nil {
		return Request{}, p.err
	}
	return r, nil
}

// check holds rules that join several parameters.
func (r *Request) check() error {
	if r.Compare != "" && r.Range.All {
		return badParam("compare", "needs a range: give from and to, or a period other than all")
	}
	if r.Interval != "" && !r.Range.All {
		return checkBars(r.Interval, r.Range)
	}
	return nil
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

func (p *parser) final() bool {
	v := p.values.Get("final")
	if v == "" {
		return true
	}
	final, err := strconv.ParseBool(v)
	if err != nil {
		p.fail("final", "%.100q is neither 1 nor 0", v)
	}
	return final
}

func (p *parser) dimension() string {
	name := p.values.Get("dimension")
	if name == "" {
		p.fail("dimension", "is required: one of %s", strings.Join(schema.Dimensions(), ", "))
	} else if !isDimension(name) {
		p.fail("dimension", "%.100q is not one of %s", name, strings.Join(schema.Dimensions(), ", "))
	}
	return name
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
		if custom || r.Dimension == "name" {
			return []Metric{Events, Visitors}
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
		case m == Views && custom:
			p.fail("metrics", "views count page views only: with a name ask for events")
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
