package query

// Metric is something that is counted.
type Metric string

// The metrics that can be asked for.
const (
	Views    Metric = "views"
	Events   Metric = "events"
	Visitors Metric = "visitors"
)

var metrics = []Metric{Views, Events, Visitors}

// definitions say what each number counts; they are printed in every answer.
var definitions = map[Metric]string{
	Views:    "sum of n over accepted page views",
	Events:   "sum of n over accepted events of every name, page views included, engagement pings left out",
	Visitors: "distinct daily visitor hashes among these events; a person who returns on another day is another visitor",
}

// Figures are the values of the metrics that were asked for; the others are nil.
type Figures struct {
	Views    *int64 `json:"views,omitempty"`
	Events   *int64 `json:"events,omitempty"`
	Visitors *int64 `json:"visitors,omitempty"`
}

// Get returns the value of m and whether it was asked for.
func (f Figures) Get(m Metric) (int64, bool) {
	if p := *f.of(m); p != nil {
		return *p, true
	}
	return 0, false
}

func (f *Figures) set(m Metric, v int64) { *f.of(m) = &v }

func (f *Figures) of(m Metric) **int64 {
	switch m {
	case Views:
		return &f.Views
	case Events:
		return &f.Events
	default:
		return &f.Visitors
	}
}

// zeroFigures is the answer for a bucket or a page nobody saw.
func zeroFigures(ms []Metric) Figures {
	var f Figures
	for _, m := range ms {
		f.set(m, 0)
	}
	return f
}
