package query

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// serverMetrics has one series a question and outcome: ok, or the error's code.
type serverMetrics struct {
	seconds *prometheus.HistogramVec
	kept    *prometheus.CounterVec
}

func newServerMetrics(r prometheus.Registerer) (*serverMetrics, error) {
	m := &serverMetrics{kept: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pagetally_query_cache_total", Help: "Questions about ranges that are over: answered from memory (hit) or read (miss).",
	}, []string{"result"}), seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "pagetally_query_seconds",
		Help:    "Time to answer a question over HTTP, by question and outcome.",
		Buckets: []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"question", "outcome"})}
	if r == nil {
		return m, nil
	}
	return m, errors.Join(r.Register(m.seconds), r.Register(m.kept))
}

func (m *serverMetrics) cached(hit bool) {
	result := "miss"
	if hit {
		result = "hit"
	}
	m.kept.WithLabelValues(result).Inc()
}

func (m *serverMetrics) observe(question, outcome string, took time.Duration) {
	m.seconds.WithLabelValues(question, outcome).Observe(took.Seconds())
}
