package main

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestMemoryLimitLeavesRoom(t *testing.T) {
	for _, test := range []struct {
		live uint64
		want int64
	}{
		{0, memoryFloor},
		{30 << 20, memoryFloor},
		{100 << 20, 300 << 20},
		{4 << 30, 12 << 30},
	} {
		if got := memoryLimit(test.live); got != test.want {
			t.Errorf("limit for %d live bytes: got %d, want %d", test.live, got, test.want)
		}
	}
	if got := memoryLimit(math.MaxUint64); got <= 0 {
		t.Errorf("limit for all there is: got %d, want a positive one", got)
	}
}

func TestMemoryLimitFollowsTheHeap(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	t.Setenv("GOGC", "")
	before := debug.SetMemoryLimit(-1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- boundMemory(ctx) }()
	held := make([]byte, memoryFloor)
	runtime.GC()
	for end := time.Now().Add(20 * memoryPeriod); debug.SetMemoryLimit(-1) < 3*memoryFloor || debug.SetMemoryLimit(-1) == before; {
		if time.Now().After(end) {
			t.Fatalf("limit with %d bytes held: got %d, want at least %d", len(held), debug.SetMemoryLimit(-1), 3*memoryFloor)
		}
		time.Sleep(10 * time.Millisecond)
	}
	runtime.KeepAlive(held)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("limit after the end: got %d, want %d as before", got, before)
	}
}

func TestOperatorsMemoryLimitIsKept(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "3GiB")
	before := debug.SetMemoryLimit(3 << 30)
	defer debug.SetMemoryLimit(before)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := boundMemory(ctx); err != nil {
		t.Fatal(err)
	}
	if got := debug.SetMemoryLimit(-1); got != 3<<30 {
		t.Errorf("got %d, want the operator's", got)
	}
}
