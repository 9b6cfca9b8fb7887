//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	probers    = 4 // probes in flight: more would be a load of their own
	probePause = 50 * time.Millisecond
	probeWait  = 30 * time.Second
)

// visibility measures, under moderate load, from the sending of a view of a page that nobody saw before until GET /v1/count
// has it. The answer is up to probePause late.
func (b *bench) visibility(ctx context.Context, r *result, server *counter) (err error) {
	say("visibility at %d requests/s", b.Rate)
	var pages atomic.Int64
	r.Visibility, err = b.underLoad(ctx, server, func(ctx context.Context, _ int) (time.Duration, error) {
		return probe(ctx, server, fmt.Sprintf("/probe/%d", pages.Add(1)))
	})
	if err != nil {
		return fmt.Errorf("visibility: %w", err)
	}
	return nil
}

// underLoad repeats probes, each prober one after the other, while the server is under moderate load.
func (b *bench) underLoad(ctx context.Context, server *counter, probe func(ctx context.Context, prober int) (time.Duration, error)) (*visibilityRow, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	background := plan{addr: server.addr, connections: 64, threads: 1, during: b.Visible, rate: b.Rate}
	latency := hdrhistogram.New(1, probeWait.Milliseconds(), 3)
	errs := make([]error, probers)
	var mu sync.Mutex
	var running sync.WaitGroup
	until := time.Now().Add(b.Visible)
	for i := range probers {
		running.Go(func() {
			for time.Now().Before(until) && errs[i] == nil {
				var took time.Duration
				took, errs[i] = probe(ctx, i)
				mu.Lock()
				_ = latency.RecordValue(took.Milliseconds())
				mu.Unlock()
			}
		})
	}
	l, err := background.run(ctx, b.traffic)
	if err != nil {
		cancel()
	}
	running.Wait()
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	return &visibilityRow{
		Rate: l.rate(), Probes: latency.TotalCount(),
		P50: float64(latency.ValueAtPercentile(50)) / 1000, P99: float64(latency.ValueAtPercentile(99)) / 1000,
	}, nil
}

// probe sends one view at a random moment and waits until it is counted.
func probe(ctx context.Context, server *counter, path string) (time.Duration, error) {
	if err := pauseAtRandom(ctx); err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := sendView(ctx, server, site, path); err != nil {
		return 0, err
	}
	for {
		var count struct{ Views int64 }
		err := server.get(ctx, "/v1/count?site="+site+"&path="+path, &count)
		took := time.Since(begun)
		switch {
		case err != nil:
			return 0, err
		case count.Views == 1:
			return took, nil
		case count.Views > 1:
			return 0, fmt.Errorf("%s counts %d views of one", path, count.Views)
		case took > probeWait:
			return 0, fmt.Errorf("%s is not counted after %s", path, took)
		}
		if err := pause(ctx, probePause); err != nil {
			return 0, err
		}
	}
}

func sendView(ctx context.Context, server *counter, site, path string) error {
	body := fmt.Sprintf(`{"n":"pageview","u":"https://%s%s","d":"%s"}`, site, path, site)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+server.addr+"/api/event", strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", agents[0])
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != http.StatusAccepted || response.Header.Get("X-Pagetally-Reason") != "") {
		err = fmt.Errorf("view is not accepted: %s %s", response.Status, answer)
	}
	return err
}

func pauseAtRandom(ctx context.Context) error { return pause(ctx, rand.N(500*time.Millisecond)) }

func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
