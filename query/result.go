package query

import (
	"bytes"
	"encoding/json"
	"time"
)

// Meta says what an answer is worth.
type Meta struct {
	// Exact says per metric whether the values are exact; for one that is not, ErrorBound is the greatest relative error.
	Exact      map[Metric]bool    `json:"exact"`
	ErrorBound map[Metric]float64 `json:"error_bound"`
	// AsOf: every event acknowledged before it is in the answer.
	AsOf  string    `json:"as_of"`
	Range RangeMeta `json:"range"`
	// Source is "exact": sums over the tables, not the fast approximate counters.
	Source     string            `json:"source"`
	Definition map[Metric]string `json:"definition"`
	// Partial: the range was not over at AsOf, so that the numbers may still grow.
	Partial bool `json:"partial,omitempty"`
	// Compared is the range that totals were compared with.
	Compared *RangeMeta `json:"compared,omitempty"`
}

// RangeMeta is a half-open range of instants, written with the offsets of its zone.
type RangeMeta struct {
	From string `json:"from"`
	To   string `json:"to"`
	TZ   string `json:"tz"`
}

// CountResult is the count of one page, or of a site when no path was asked for.
type CountResult struct {
	Site string `json:"site"`
	Path string `json:"path,omitempty"`
	Name string `json:"name,omitempty"`
	Figures
	Meta Meta `json:"meta"`
}

// TotalsResult holds each metric that was asked for.
type TotalsResult struct {
	Results map[Metric]Total `json:"results"`
	Meta    Meta             `json:"meta"`
}

// Total is a metric over the range, and over the compared range when one was asked for.
type Total struct {
	Value    int64  `json:"value"`
	Previous *int64 `json:"previous,omitempty"`
}

// TimeseriesResult has a bar for every interval of the range that has begun, empty ones included.
type TimeseriesResult struct {
	Results  []SeriesBar `json:"results"`
	Interval Interval    `json:"interval"`
	Meta     Meta        `json:"meta"`
}

// SeriesBar is one interval. Date is a calendar date, or for hours the start; Start and End are the whole interval.
type SeriesBar struct {
	Date  string `json:"date"`
	Start string `json:"start"`
	End   string `json:"end"`
	Figures
	// Partial: the interval is not over, or the asked range cuts it.
	Partial bool `json:"partial,omitempty"`
}

// TopResult lists the values of a dimension, the greatest count first, equal ones by value.
type TopResult struct {
	Results []TopRow `json:"results"`
	Meta    Meta     `json:"meta"`
}

// TopRow is one value of a dimension; in JSON the value stands under the dimension's name.
type TopRow struct {
	Dimension string
	Value     string // as shown: the empty value reads "(not set)" or "Direct / None"
	Figures
}

// MarshalJSON writes {"path":"/a","views":3,...}.
func (r TopRow) MarshalJSON() ([]byte, error) {
	key, err := json.Marshal(r.Dimension)
	if err != nil {
		return nil, err
	}
	value, err := json.Marshal(r.Value)
	if err != nil {
		return nil, err
	}
	figures, err := json.Marshal(r.Figures)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteByte('{')
	b.Write(key)
	b.WriteByte(':')
	b.Write(value)
	if len(figures) > len("{}") {
		b.WriteByte(',')
	}
	b.Write(figures[1:])
	return b.Bytes(), nil
}

// formatTime keeps milliseconds only where there are some.
func formatTime(t time.Time) string { return t.Format("2006-01-02T15:04:05.999Z07:00") }

func rangeMeta(r Range) RangeMeta {
	return RangeMeta{From: formatTime(r.From), To: formatTime(r.To), TZ: r.Loc.String()}
}

// metaOf judges an answer by its visitors: counts are always exact. sketched is the greatest number of visitors in it.
func metaOf(r *Request, asOf time.Time, sketched int64) Meta {
	m := Meta{
		Exact:      map[Metric]bool{},
		ErrorBound: map[Metric]float64{},
		AsOf:       formatTime(asOf.In(r.Range.Loc)),
		Range:      rangeMeta(r.Range),
		Source:     "exact",
		Definition: map[Metric]string{},
		Partial:    r.Range.To.After(asOf),
	}
	for _, metric := range r.Metrics {
		m.Exact[metric] = true
		m.Definition[metric] = definitions[metric]
	}
	if s := sketchOf(r); r.asks(Visitors) && !s.exact(sketched) {
		m.Exact[Visitors] = false
		m.ErrorBound[Visitors] = s.bound
	}
	return m
}
