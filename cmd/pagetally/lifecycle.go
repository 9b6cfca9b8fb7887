package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// lifecycle runs the parts of the server, each in a goroutine of its own, and stops them one at a time. The parts do not
// end with the context that asks for the stop: in which order they end is the order of the calls of stop.
type lifecycle struct {
	log    *slog.Logger
	failed chan error // the first part that ended unasked
	parts  map[string]*part
	mu     sync.Mutex
}

type part struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func newLifecycle(log *slog.Logger) *lifecycle {
	return &lifecycle{log: log, failed: make(chan error, 1), parts: map[string]*part{}}
}

// start runs a part until stop(name). A part that ends sooner, with or without an error, ends the server.
func (l *lifecycle) start(name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &part{cancel: cancel, done: make(chan struct{})}
	l.mu.Lock()
	l.parts[name] = p
	l.mu.Unlock()
	go func() {
		defer close(p.done)
		err := run(ctx)
		if ctx.Err() != nil {
			if err != nil && !errors.Is(err, context.Canceled) {
				l.log.Warn("part stopped with an error", "part", name, "error", err)
			}
			return
		}
		if err == nil {
			err = errors.New("ended unasked")
		}
		select {
		case l.failed <- fmt.Errorf("%s: %w", name, err):
		default:
		}
	}()
}

// stop ends a part and waits for it. A part that was never started is no error.
func (l *lifecycle) stop(name string) {
	l.mu.Lock()
	p := l.parts[name]
	l.mu.Unlock()
	if p == nil {
		return
	}
	p.cancel()
	<-p.done
}
