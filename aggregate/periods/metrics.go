package periods

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of building, by grain: day, month, visits.
type metrics struct {
	periods  *prometheus.CounterVec
	seconds  *prometheus.CounterVec
	waiting  *prometheus.GaugeVec
	failures prometheus.Counter
	deleted  prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		periods: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pagetally_periods_built_total", Help: "Closed periods that were built, again ones included.",
		}, []string{"grain"}),
		seconds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pagetally_periods_seconds_total", Help: "Time that building took.",
		}, []string{"grain"}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "pagetally_periods_waiting", Help: "Closed periods that could not be built at the last look.",
		}, []string{"grain"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pagetally_periods_failures_total", Help: "Looks that ended with an error.",
		}),
		deleted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pagetally_periods_deleted_total", Help: "Builds whose rows were deleted because others took their place.",
		}),
	}
	if registry == nil {
		return m, nil
	}
	var failed []error
	for _, c := range []prometheus.Collector{m.periods, m.seconds, m.waiting, m.failures, m.deleted} {
		failed = append(failed, registry.Register(c))
	}
	return m, errors.Join(failed...)
}

func (m *metrics) built(g grain, n int, took time.Duration) {
	m.periods.WithLabelValues(g.String()).Add(float64(n))
	m.seconds.WithLabelValues(g.String()).Add(took.Seconds())
}

func (m *metrics) wait(waiting map[grain]int) {
	for _, g := range []grain{days, months, visits} {
		m.waiting.WithLabelValues(g.String()).Set(float64(waiting[g]))
	}
}
