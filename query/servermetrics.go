package query

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// serverMetrics has one series a question and outcome: ok, or the error's code.
type serverMetrics struct{ seconds *prometheus.HistogramVec }

func newServerMetrics(r prometheus.Registerer) (*serverMetrics, error) {
	m := &serverMetrics{prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "pagetally_query_seconds",
		Help:    "Time to answer a question over HTTP, by question and outcome.",
		Buckets: []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"question", "outcome"})}
	if r == nil {
		return m, nil
	}
	return m, r.Register(m.seconds)
}

func (m *serverMetrics) observe(question, outcome string, took time.Duration) {
	m.seconds.WithLabelValues(question, outcome).Observe(took.Seconds())
}
