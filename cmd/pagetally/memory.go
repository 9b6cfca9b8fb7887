package main

import (
	"context"
	"math"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Delivery builds a block, sends it and forgets it, so that much of the heap is garbage most of the time. The collector would let
// it grow to twice of what lives; a soft limit makes it collect a little sooner where that keeps a busy node below 150 MB. The limit
// stays above three times what lives, so that a node that needs more (a backlog, many claims) is not slowed down.
const (
	memoryFloor  = 112 << 20 // bytes, of all that the Go runtime holds
	memoryPeriod = time.Second
	liveMetric   = "/gc/heap/live:bytes"
)

// boundMemory follows what lives with the soft limit until ctx ends. An operator's GOMEMLIMIT or GOGC is left alone.
func boundMemory(ctx context.Context) error {
	if os.Getenv("GOMEMLIMIT") != "" || os.Getenv("GOGC") != "" {
		<-ctx.Done()
		return nil
	}
	before := debug.SetMemoryLimit(memoryLimit(0))
	defer debug.SetMemoryLimit(before)
	ticker := time.NewTicker(memoryPeriod)
	defer ticker.Stop()
	sample := []metrics.Sample{{Name: liveMetric}}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			metrics.Read(sample)
			debug.SetMemoryLimit(memoryLimit(sample[0].Value.Uint64()))
		}
	}
}

// memoryLimit is the soft limit for a heap of which live bytes were in use after the last collection.
func memoryLimit(live uint64) int64 {
	return int64(max(memoryFloor, 3*min(live, math.MaxInt64/3)))
}
