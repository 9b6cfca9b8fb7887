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
	// Source is "exact": sums over the tables; or "recent": a base of these and what Redis counted since.
	Source string `json:"source"`
	// Reason tells why an answer is exact although another mode was asked for.
	Reason     string            `json:"reason,omitempty"`
	Definition map[Metric]string `json:"definition"`
	// Partial: the range was not over at AsOf, so that the numbers may still grow.
	Partial bool `json:"partial,omitempty"`
	// Base is the exact part of a recent answer.
	Base *BaseMeta `json:"base,omitempty"`
	// Compared is the range that the answer was compared with.
	Compared *RangeMeta `json:"compared,omitempty"`
	// TotalRows is the number of rows of a list without limit.
	TotalRows *int64 `json:"total_rows,omitempty"`
	// Explanation was asked for by explain=1.
	Explanation *Explanation `json:"explanation,omitempty"`

	sketch sketch
	most   int64 // visitors in a row
}

// BaseMeta is what the tables hold of the events that happened before an instant.
type BaseMeta struct {
	Figures
	Before string `json:"before"`
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
	Value    any  `json:"value"`              // int64, or for a rate float64; nil: of nothing
	Previous *any `json:"previous,omitempty"` // nil: not compared
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
	// Previous is the bar in the same place of the compared range.
	Previous *PreviousBar `json:"previous,omitempty"`
}

// PreviousBar is a bar of a compared range.
type PreviousBar struct {
	Date string `json:"date"`
	Figures
}

// TopResult lists the values of dimensions, the greatest count first, equal ones by value.
type TopResult struct {
	Results []TopRow `json:"results"`
	Meta    Meta     `json:"meta"`
}

// TopRow is one value of each dimension; in JSON the values stand under the dimensions' names.
type TopRow struct {
	Dimensions []string
	Values     []string // as shown: the empty value reads "(not set)" or "Direct / None"
	Figures
}

// MarshalJSON writes {"path":"/a","views":3,...}.
func (r TopRow) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	separator := byte('{')
	for i, dimension := range r.Dimensions {
		key, err := json.Marshal(dimension)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(r.Values[i])
		if err != nil {
			return nil, err
		}
		b.WriteByte(separator)
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
		separator = ','
	}
	figures, err := json.Marshal(r.Figures)
	if err != nil {
		return nil, err
	}
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

// newMeta is what is said of every answer to r. Source is "exact", and so are all metrics.
func newMeta(r *Request, asOf time.Time) Meta {
	m := Meta{
		Exact:       map[Metric]bool{},
		ErrorBound:  map[Metric]float64{},
		AsOf:        formatTime(asOf.In(r.Range.Loc)),
		Range:       rangeMeta(r.Range),
		Source:      "exact",
		Definition:  map[Metric]string{},
		Partial:     r.Range.To.After(asOf),
		Explanation: r.Explanation,
	}
	for _, metric := range r.Metrics {
		m.Exact[metric] = true
		m.Definition[metric] = definitions[metric]
	}
	return m
}

// metaOf judges an answer by its visitors, which are a sketch above a number of them: everything else is exact.
func metaOf(g *groups, asOf time.Time) Meta {
	m := newMeta(g.r, asOf)
	if m.Explanation != nil {
		m.Explanation.Plan = g.plan.explain()
	}
	m.sketch = g.plan.sketch
	m.judge(g.mostVisitors())
	return m
}

// judge says how far off visitors may be if there are as many as most of them in a row.
func (m *Meta) judge(most int64) {
	m.most = max(m.most, most)
	if m.sketch.exact(m.most) {
		return
	}
	for metric, bound := range map[Metric]float64{Visitors: m.sketch.bound, ConversionRate: m.sketch.ofRatio()} {
		if _, asked := m.Exact[metric]; asked {
			m.Exact[metric] = false
			m.ErrorBound[metric] = bound
		}
	}
}

// comparedWith adds what is to be said of the answer for the compared range.
func (m *Meta) comparedWith(previous *groups) {
	compared := rangeMeta(previous.r.Range)
	m.Compared = &compared
	m.judge(previous.mostVisitors())
}
