package embedded

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	up       prometheus.Gauge
	starts   prometheus.Counter
	failures prometheus.Counter
	crashes  prometheus.Counter
	kills    prometheus.Counter
	tails    prometheus.Counter
	seconds  prometheus.Gauge
}

// newMetrics makes the metrics and registers them where there is a registry.
func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "pagetally", Subsystem: "engine", Name: name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "pagetally", Subsystem: "engine", Name: name, Help: help})
	}
	m := &metrics{
		up:       gauge("up", "1 while the embedded engine answers."),
		starts:   counter("starts_total", "Starts of the embedded engine that ended in an answer."),
		failures: counter("start_failures_total", "Starts of the embedded engine that ended without an answer."),
		crashes:  counter("crashes_total", "Ends of a running embedded engine that nobody asked for; each is followed by a restart."),
		kills:    counter("kills_total", "Stops of the embedded engine that took too long and ended in a kill."),
		tails:    counter("deduplication_tails_cut_total", "Torn last records cut from deduplication logs before a start."),
		seconds:  gauge("start_seconds", "How long the last start took until the first answer."),
	}
	if registerer == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.up, m.starts, m.failures, m.crashes, m.kills, m.tails, m.seconds} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
