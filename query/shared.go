package query

import (
	"context"
	"sync"
)

// shared runs what several callers ask for at the same time once. What runs ends when nobody waits for it any more.
type shared[T any] struct {
	mu      sync.Mutex
	running map[string]*sharedRun[T]
}

type sharedRun[T any] struct {
	waiting int // guarded by shared.mu
	cancel  context.CancelFunc
	done    chan struct{}
	result  T
	err     error
}

func newShared[T any]() *shared[T] { return &shared[T]{running: map[string]*sharedRun[T]{}} }

// do returns what run returns, to all who ask for key before it ended. It returns early when ctx ends.
func (s *shared[T]) do(ctx context.Context, key string, run func(context.Context) (T, error)) (result T, err error) {
	s.mu.Lock()
	r, ok := s.running[key]
	if !ok {
		r = s.start(ctx, key, run)
	}
	r.waiting++
	s.mu.Unlock()
	select {
	case <-r.done:
		return r.result, r.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.waiting--; r.waiting == 0 {
		r.cancel()
		if s.running[key] == r {
			delete(s.running, key) // who asks now does not want what was given up
		}
	}
	return result, context.Cause(ctx)
}

// start is called with mu held. The goroutine ends with run, which ends soon after its context.
func (s *shared[T]) start(ctx context.Context, key string, run func(context.Context) (T, error)) *sharedRun[T] {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &sharedRun[T]{cancel: cancel, done: make(chan struct{})}
	s.running[key] = r
	go func() {
		defer cancel()
		r.result, r.err = run(ctx)
		s.mu.Lock()
		if s.running[key] == r {
			delete(s.running, key)
		}
		s.mu.Unlock()
		close(r.done)
	}()
	return r
}
