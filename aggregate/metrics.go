package aggregate

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	inserts       *prometheus.CounterVec
	insertSeconds prometheus.Histogram
	rows          *prometheus.CounterVec
	conflicts     prometheus.Counter
	uncertain     prometheus.Counter
	filled        prometheus.Counter
	repairs       prometheus.Counter
	splits        prometheus.Counter
	brokenParts   prometheus.Counter
	held          prometheus.Gauge
	retries       prometheus.Counter
}

// newMetrics asks lag whenever the metrics are read: it grows while delivery stands still.
func newMetrics(r prometheus.Registerer, lag func() time.Duration) *metrics {
	m := &metrics{
		inserts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pagetally_inserts_total", Help: "INSERT attempts by result: ok, retry, configuration, data, corrupt.",
		}, []string{"result"}),
		insertSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pagetally_insert_seconds", Help: "Duration of INSERT attempts.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 14),
		}),
		rows: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pagetally_delivered_rows_total", Help: "Journaled rows by what became of them: stored, duplicate, parked, quarantined, forgotten.",
		}, []string{"fate"}),
		conflicts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pagetally_id_conflicts_total", Help: "Events whose id was used before with other content; the first one counts.",
		}),
		uncertain: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pagetally_uncertain_groups_total", Help: "Groups of batches whose first INSERT did not answer OK and that had to be settled.",
		}),
		filled: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pagetally_filled_batches_total", Help: "Batches whose rows were missing although a retry had answered OK, and were filled in.",
		}),
		repairs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pagetally_rollup_repairs_total", Help: "Times the rollups of a batch's buckets were compared with the events and mended.",
		}),
		splits: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pagetally_batch_splits_total", Help: "Batches cut in halves to find rows that ClickHouse refuses.",
		}),
		brokenParts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pagetally_broken_parts_total", Help: "Parts that ClickHouse acknowledged and that were not whole; their rows were stored again.",
		}),
		held: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pagetally_held_groups", Help: "Groups held back because their rows are refused and nothing shows that others would pass.",
		}),
		retries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pagetally_delivery_retries_total", Help: "Failures of delivery that were waited out.",
		}),
	}
	age := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pagetally_delivery_lag_seconds", Help: "Age of the oldest acknowledged event that is not in ClickHouse yet; 0 when all are.",
	}, func() float64 { return lag().Seconds() })
	if r != nil {
		r.MustRegister(m.inserts, m.insertSeconds, m.rows, m.conflicts, m.uncertain, m.filled, m.repairs, m.splits, m.brokenParts, m.held, m.retries, age)
	}
	return m
}

func (m *metrics) delivered(e entry) {
	for fate, n := range map[string]int64{
		"stored": e.stored, "duplicate": e.duplicate, "parked": e.parked, "quarantined": e.quarantined, "forgotten": e.forgotten,
	} {
		if n > 0 { // rows that left parking or quarantine are counted by where they went
			m.rows.WithLabelValues(fate).Add(float64(n))
		}
	}
}
