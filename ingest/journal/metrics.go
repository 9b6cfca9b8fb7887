package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// File calls that can fail, as a label.
const (
	opCreate   = "create"
	opOpen     = "open"
	opWrite    = "write"
	opSync     = "sync"
	opSyncDir  = "sync_folder"
	opTruncate = "truncate"
	opRename   = "rename"
	opRemove   = "remove"
	opRead     = "read"
	opCopy     = "copy"
)

type metrics struct {
	frames, rows, bytes  prometheus.Counter
	refusals             *prometheus.CounterVec
	commitSeconds        prometheus.Histogram
	groupFrames          prometheus.Histogram
	seals                *prometheus.CounterVec
	failures             *prometheus.CounterVec
	tornTails, tornBytes prometheus.Counter

	registry   prometheus.Registerer
	collectors []prometheus.Collector
}

func newMetrics(cat *catalogue) *metrics {
	m := &metrics{
		frames: counter("frames_total", "Payloads made durable."),
		rows:   counter("rows_total", "Rows made durable."),
		bytes:  counter("bytes_total", "Bytes of frames made durable."),
		refusals: prometheus.NewCounterVec(opts("refused_total",
			"Payloads not acknowledged, by reason."), []string{"reason"}),
		commitSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "commit_seconds",
			Help:    "Time to write and sync one group.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}),
		groupFrames: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: subsystem, Name: "group_frames",
			Help:    "Payloads that shared one sync.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 14),
		}),
		seals: prometheus.NewCounterVec(opts("seals_total",
			"Segments sealed, by cause."), []string{"cause"}),
		failures: prometheus.NewCounterVec(opts("file_failures_total",
			"File calls that failed, by operation."), []string{"op"}),
		tornTails: counter("torn_segments_total", "Segments found cut short by a crash."),
		tornBytes: counter("torn_bytes_total", "Unacknowledged bytes cut off such segments."),
	}
	m.collectors = []prometheus.Collector{
		m.frames, m.rows, m.bytes, m.refusals, m.commitSeconds, m.groupFrames, m.seals, m.failures,
		m.tornTails, m.tornBytes, newGauges(cat),
	}
	return m
}

const (
	namespace = "pagetally"
	subsystem = "journal"
)

func opts(name, help string) prometheus.CounterOpts {
	return prometheus.CounterOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}
}

func counter(name, help string) prometheus.Counter { return prometheus.NewCounter(opts(name, help)) }

func (m *metrics) register(registry prometheus.Registerer) error {
	if registry == nil {
		return nil
	}
	m.registry = registry
	for i, collector := range m.collectors {
		if err := registry.Register(collector); err != nil {
			m.collectors = m.collectors[:i]
			m.unregister()
			return fmt.Errorf("register journal metrics: %w", err)
		}
	}
	return nil
}

// unregister lets a journal of the same registry be opened again.
func (m *metrics) unregister() {
	if m.registry == nil {
		return
	}
	for _, collector := range m.collectors {
		m.registry.Unregister(collector)
	}
}

func (m *metrics) committed(g *group, took time.Duration) {
	m.frames.Add(float64(g.frames))
	m.rows.Add(float64(g.rows))
	m.bytes.Add(float64(len(g.buf)))
	m.groupFrames.Observe(float64(g.frames))
	m.commitSeconds.Observe(took.Seconds())
}

func (m *metrics) failed(op string) { m.failures.WithLabelValues(op).Inc() }

func (m *metrics) refused(err error) { m.refusals.WithLabelValues(reason(err)).Inc() }

func reason(err error) string {
	switch {
	case errors.Is(err, errLimit):
		return "limit"
	case errors.Is(err, errPending):
		return "pending"
	case errors.Is(err, ErrFull):
		return "no_space"
	case errors.Is(err, ErrIO):
		return "io"
	case errors.Is(err, ErrClosed):
		return "closed"
	case errors.Is(err, ErrTooLarge):
		return "too_large"
	case errors.Is(err, ErrEmpty):
		return "empty"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return "context"
	}
	return "other"
}

// gauges reads the catalogue when it is asked.
type gauges struct {
	cat                    *catalogue
	segments, bytes, rows  *prometheus.Desc
	totalBytes, oldestTime *prometheus.Desc
}

func newGauges(cat *catalogue) *gauges {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, subsystem, name), help, labels, nil)
	}
	return &gauges{
		cat:        cat,
		segments:   desc("segments", "Segments, by state.", "state"),
		bytes:      desc("segment_bytes", "Size of segment files, by state.", "state"),
		rows:       desc("segment_rows", "Rows in segments, by state.", "state"),
		totalBytes: desc("disk_bytes", "Size of all files, which the disk limit is compared with."),
		oldestTime: desc("oldest_timestamp_seconds", "When the oldest undelivered payload came; 0 when there is none."),
	}
}

func (g *gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.segments, g.bytes, g.rows, g.totalBytes, g.oldestTime} {
		ch <- d
	}
}

func (g *gauges) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for s := range numStates {
		segments, bytes, rows := g.cat.sums(s)
		gauge(g.segments, float64(segments), s.String())
		gauge(g.bytes, float64(bytes), s.String())
		gauge(g.rows, float64(rows), s.String())
	}
	gauge(g.totalBytes, float64(g.cat.total.Load()))
	var oldest float64
	if at := g.cat.oldest(StateOpen, StateSealed); !at.IsZero() {
		oldest = float64(at.UnixMilli()) / 1000
	}
	gauge(g.oldestTime, oldest)
}
