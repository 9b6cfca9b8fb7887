package ingest

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Labels of events that belong to no listed site.
const (
	labelUnknown = "(unknown)" // all names that are no site share one label
	labelAny     = "(any)"     // all sites of a server that takes any
	labelOther   = "(other)"   // sites beyond maxSiteLabels
)

// maxSiteLabels bounds the sites with a label of their own.
const maxSiteLabels = 200

// Names of dialects in metrics.
const (
	dialectPlausible = "plausible"
	dialectUmami     = "umami"
	dialectGoat      = "goatcounter"
	dialectPixel     = "pixel"
	dialectNative    = "native"
)

var dialects = []string{dialectPlausible, dialectUmami, dialectGoat, dialectPixel, dialectNative}

type metrics struct {
	accepted *prometheus.CounterVec // by site, dialect
	refused  *prometheus.CounterVec // by site, dialect, reason
	folded   *prometheus.CounterVec // by site
	returned *prometheus.CounterVec // by outcome
	latency  map[string]prometheus.Observer
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		accepted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pagetally_ingest_accepted_total", Help: "Events acknowledged after they were journaled.",
		}, []string{"site", "dialect"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pagetally_ingest_refused_total", Help: "Events (or unreadable requests) that were not counted, by reason.",
		}, []string{"site", "dialect", "reason"}),
		folded: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pagetally_ingest_folded_total", Help: "Events counted under the path (other), because the site had too many new paths that day.",
		}, []string{"site"}),
		returned: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pagetally_ingest_returned_counts_total", Help: "Requests that asked for the counts of their pages, by outcome: exact, approximate, unavailable.",
		}, []string{"outcome"}),
	}
	latency := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "pagetally_ingest_request_seconds", Help: "Time from a received body to its reply, journaling included.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"dialect"})
	m.latency = make(map[string]prometheus.Observer, len(dialects))
	for _, dialect := range dialects {
		m.latency[dialect] = latency.WithLabelValues(dialect)
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.accepted, m.refused, m.folded, m.returned, latency} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) refuse(site *Site, dialect string, reason Reason) {
	m.refused.WithLabelValues(labelOf(site), dialect, string(reason)).Inc()
}

func (m *metrics) accept(site *Site, dialect string) {
	m.accepted.WithLabelValues(labelOf(site), dialect).Inc()
}

func (m *metrics) observe(dialect string, start, end time.Time) {
	m.latency[dialect].Observe(end.Sub(start).Seconds())
}

func labelOf(site *Site) string {
	if site == nil {
		return labelUnknown
	}
	return site.label
}
