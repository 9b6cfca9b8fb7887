package embedded_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pagetally/pagetally/schema/embedded"
)

// TestStopWhileStarting: the engine has no prompt yet to be told to stop at.
func TestStopWhileStarting(t *testing.T) {
	for _, after := range []time.Duration{0, 30 * time.Millisecond, 120 * time.Millisecond} {
		engine, err := embedded.New(embeddedtestConfig(t, t.TempDir()))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), after)
		began := time.Now()
		err = engine.Run(ctx)
		cancel()
		if took := time.Since(began); err != nil || took > within/2 || engine.PID() != 0 {
			t.Errorf("stopped after %v: %v, took %v, pid %d, want nil, soon, 0", after, err, took, engine.PID())
		}
	}
}

// TestEngineThatNeverAnswers: Run gives up with what the engine said instead of trying for ever.
func TestEngineThatNeverAnswers(t *testing.T) {
	cfg := embeddedtestConfig(t, t.TempDir())
	cfg.StartTimeout = 50 * time.Millisecond // none answers that fast
	err := runBriefly(t, cfg)
	if !errors.Is(err, embedded.ErrNotStarting) || !strings.Contains(err.Error(), cfg.Dir) {
		t.Errorf("got %v, want ErrNotStarting that names the log directory", err)
	}
}

func TestMetricsTellOfACrash(t *testing.T) {
	registry := prometheus.NewRegistry()
	cfg := embeddedtestConfig(t, t.TempDir())
	cfg.Registerer = registry
	engine, err := embedded.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	if err := engine.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	expect(t, registry, map[string]float64{"up": 1, "starts_total": 1, "crashes_total": 0})
	kill(t, engine.PID())
	waitFor(t, "restart", func() bool { return values(t, registry)["starts_total"] == 2 })
	expect(t, registry, map[string]float64{"up": 1, "crashes_total": 1, "start_failures_total": 0})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	expect(t, registry, map[string]float64{"up": 0, "crashes_total": 1, "kills_total": 0})
}

func expect(t *testing.T, registry *prometheus.Registry, want map[string]float64) {
	t.Helper()
	got := values(t, registry)
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s = %v, want %v", name, got[name], value)
		}
	}
}

// values reads the engine's metrics by their names' ends.
func values(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		metric := family.GetMetric()[0]
		got[strings.TrimPrefix(family.GetName(), "pagetally_engine_")] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
	}
	return got
}
