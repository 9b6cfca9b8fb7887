package query

import (
	"math"
	"slices"
	"strconv"
)

// Metric is something that is counted.
type Metric string

// The metrics that can be asked for. Visits and what is said of them are derived from events (see visits.go); time on page and
// scroll depth come from engagement pings.
const (
	Views          Metric = "views"
	Events         Metric = "events"
	Visitors       Metric = "visitors"
	Visits         Metric = "visits"
	ViewsPerVisit  Metric = "views_per_visit"
	BounceRate     Metric = "bounce_rate"
	VisitDuration  Metric = "visit_duration"
	TimeOnPage     Metric = "time_on_page"
	ScrollDepth    Metric = "scroll_depth"
	ConversionRate Metric = "conversion_rate"
)

var metrics = []Metric{
	Views, Events, Visitors, Visits, ViewsPerVisit, BounceRate, VisitDuration, TimeOnPage, ScrollDepth, ConversionRate,
}

// definitions say what each number counts; they are printed in every answer.
var definitions = map[Metric]string{
	Views:          "sum of n over accepted page views",
	Events:         "sum of n over accepted events of every name, page views included, engagement pings left out",
	Visitors:       "distinct daily visitor hashes among these events; a person who returns on another day is another visitor",
	Visits:         "a visitor's events of a day with less than 30 minutes between one and the next; a visit counts when it began",
	ViewsPerVisit:  "page views of these visits by their number",
	BounceRate:     "per cent of these visits with no more than one event that counts as an action",
	VisitDuration:  "mean seconds from a visit's first event to its last; 0 for a visit of one event",
	TimeOnPage:     "mean engaged seconds by visitor and day, of those who sent engagement pings",
	ScrollDepth:    "mean of the greatest scroll depth by visitor and day, in per cent, of those who sent engagement pings",
	ConversionRate: "per cent of the visitors without the goal or event asked for who reached it",
}

// ofVisitMetrics are the metrics that are derived from visits.
var ofVisitMetrics = []Metric{Visits, ViewsPerVisit, BounceRate, VisitDuration}

// ofPings are the metrics that are derived from engagement pings.
var ofPings = []Metric{TimeOnPage, ScrollDepth}

// isRate says that a metric is no count: its values do not add up, and it has none where there is nothing to divide by.
func (m Metric) isRate() bool { return !slices.Contains([]Metric{Views, Events, Visitors, Visits}, m) }

// Rate is the value of a metric that divides; it has none where nothing was counted.
type Rate struct {
	Value float64
	Valid bool
}

// decimals of a rate: more would promise what nobody reads.
const decimals = 100

func rateOf(dividend, divisor float64) Rate {
	if divisor == 0 || math.IsNaN(dividend) || math.IsNaN(divisor) {
		return Rate{}
	}
	return Rate{Value: math.Round(dividend/divisor*decimals) / decimals, Valid: true}
}

// MarshalJSON writes a number of at most two decimals, or null.
func (r Rate) MarshalJSON() ([]byte, error) { return []byte(r.text("null")), nil }

func (r Rate) text(none string) string {
	if !r.Valid {
		return none
	}
	return strconv.FormatFloat(r.Value, 'f', -1, 64)
}

// Figures are the values of the metrics that were asked for; the others are nil.
type Figures struct {
	Views          *int64 `json:"views,omitempty"`
	Events         *int64 `json:"events,omitempty"`
	Visitors       *int64 `json:"visitors,omitempty"`
	Visits         *int64 `json:"visits,omitempty"`
	ViewsPerVisit  *Rate  `json:"views_per_visit,omitempty"`
	BounceRate     *Rate  `json:"bounce_rate,omitempty"`    // per cent
	VisitDuration  *Rate  `json:"visit_duration,omitempty"` // seconds
	TimeOnPage     *Rate  `json:"time_on_page,omitempty"`   // seconds
	ScrollDepth    *Rate  `json:"scroll_depth,omitempty"`   // per cent
	ConversionRate *Rate  `json:"conversion_rate,omitempty"`
}

// Get returns the value of a count and whether it was asked for.
func (f Figures) Get(m Metric) (int64, bool) {
	if p := f.count(m); p != nil && *p != nil {
		return **p, true
	}
	return 0, false
}

// Value is the value of a metric that was asked for: an int64, or for a rate a float64, nil where nothing was counted.
func (f Figures) Value(m Metric) any {
	if n, ok := f.Get(m); ok {
		return n
	}
	if p := f.rate(m); p != nil && *p != nil && (*p).Valid {
		return (*p).Value
	}
	return nil
}

// text is the value of m for people, and whether it was asked for.
func (f Figures) text(m Metric) (string, bool) {
	if n, ok := f.Get(m); ok {
		return strconv.FormatInt(n, 10), true
	}
	if p := f.rate(m); p != nil && *p != nil {
		return (*p).text("-"), true
	}
	return "", false
}

func (f *Figures) set(m Metric, v int64) {
	if p := f.count(m); p != nil {
		*p = &v
	}
}

func (f *Figures) setRate(m Metric, v Rate) {
	if p := f.rate(m); p != nil {
		*p = &v
	}
}

// count is nil for a metric that is no count.
func (f *Figures) count(m Metric) **int64 {
	switch m {
	case Views:
		return &f.Views
	case Events:
		return &f.Events
	case Visitors:
		return &f.Visitors
	case Visits:
		return &f.Visits
	}
	return nil
}

// rate is nil for a metric that is no rate.
func (f *Figures) rate(m Metric) **Rate {
	switch m {
	case ViewsPerVisit:
		return &f.ViewsPerVisit
	case BounceRate:
		return &f.BounceRate
	case VisitDuration:
		return &f.VisitDuration
	case TimeOnPage:
		return &f.TimeOnPage
	case ScrollDepth:
		return &f.ScrollDepth
	case ConversionRate:
		return &f.ConversionRate
	}
	return nil
}
