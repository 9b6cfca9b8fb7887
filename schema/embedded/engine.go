package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	firstBackoff = 100 * time.Millisecond
	// steadyAfter is how long the engine must have answered for its next crash to count as the first again.
	steadyAfter = 10 * time.Second
	// firstStartTries bounds the starts before the first answer: an engine that never answered is set up wrongly, and
	// an error says so sooner than a loop.
	firstStartTries = 4

	privateDir = 0o700
)

// Engine is one supervised engine on one directory.
type Engine struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced at every change of the fields below
	identity identity
	process  *process // nil while none runs
	up       bool     // the running process has answered
	ended    bool     // Run has returned
	endErr   error
}

// New checks the configuration and starts nothing.
func New(cfg Config) (*Engine, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("engine metrics: %w", err)
	}
	return &Engine{cfg: cfg, log: cfg.Logger, metrics: m, changed: make(chan struct{})}, nil
}

// Run starts the engine, keeps it running until ctx is done, and stops it; it returns nil then, and only once the
// process is gone. A crash is followed by a restart, with backoff, for as long as it takes. It is called once. Close
// clients before: the engine waits some five seconds for connections that are still open.
//
// It fails with ErrLibraryMissing, ErrBadLibrary, ErrWrongPlatform, ErrDirectoryInUse, ErrPortTaken, ErrTooOld or
// ErrNotStarting when the engine never answered.
func (e *Engine) Run(ctx context.Context) error {
	err := e.run(ctx)
	e.change(func() { e.process, e.up, e.ended, e.endErr = nil, false, true, err })
	return err
}

func (e *Engine) run(ctx context.Context) error {
	library, err := Locate(e.cfg.Library)
	if err != nil {
		return err
	}
	for _, dir := range []string{"", dataDir, logDir, tempDir} {
		if err := os.MkdirAll(filepath.Join(e.cfg.Dir, dir), privateDir); err != nil {
			return fmt.Errorf("make engine directory: %w", err)
		}
	}
	lock, err := lockDirectory(ctx, e.cfg.Dir, e.cfg.TakeoverTimeout)
	if err != nil {
		return err
	}
	defer lock.release()
	id, err := loadIdentity(e.cfg)
	if err != nil {
		return err
	}
	e.change(func() { e.identity = id })
	if err := writeSettings(e.cfg, id); err != nil {
		return err
	}
	out, err := openTranscript(filepath.Join(e.cfg.Dir, logDir))
	if err != nil {
		return err
	}
	defer out.close()
	return e.supervise(ctx, &launcher{engine: e, library: library, lock: lock, out: out, id: id})
}

// supervise starts the engine again and again until ctx is done.
func (e *Engine) supervise(ctx context.Context, l *launcher) error {
	wait, answered := firstBackoff, false
	for failures := 0; ; {
		started := time.Now()
		p, err := l.launch(ctx)
		if ctx.Err() != nil {
			return e.stop(p)
		}
		if err == nil {
			answered, failures = true, 0
			if stopped, err := e.serve(ctx, p); stopped {
				return err
			}
			if time.Since(started) > steadyAfter {
				wait = firstBackoff
			}
		} else {
			failures++
			e.metrics.failures.Inc()
			if !answered && (hopeless(err) || failures == firstStartTries) {
				return err
			}
			if failures == 1 {
				e.log.Error("engine does not start, trying again", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		wait = min(2*wait, e.cfg.LongestWait)
	}
}

// serve holds an answering process until it ends or ctx is done; stopped says which.
func (e *Engine) serve(ctx context.Context, p *process) (stopped bool, err error) {
	select {
	case <-ctx.Done():
		return true, e.stop(p)
	case <-p.exited:
	}
	e.change(func() { e.process, e.up = nil, false })
	e.metrics.up.Set(0)
	e.metrics.crashes.Inc()
	e.log.Error("engine ended, restarting it", "pid", p.pid, "reason", orNormalExit(p.err))
	return false, nil
}

// stop ends the process, if there is one.
func (e *Engine) stop(p *process) error {
	e.change(func() { e.up = false })
	e.metrics.up.Set(0)
	if p == nil {
		return nil
	}
	killed, err := p.stop(e.cfg.StopTimeout)
	if killed {
		e.metrics.kills.Inc()
		e.log.Warn("engine did not end in time and was killed", "pid", p.pid)
	}
	if err == nil {
		e.log.Info("engine stopped", "pid", p.pid)
	}
	return err
}

// hopeless tells errors that another try does not mend.
func hopeless(err error) bool {
	for _, target := range []error{ErrBadLibrary, ErrWrongPlatform, ErrPortTaken, ErrTooOld} {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// Ready waits until the engine answers. When Run has ended it returns Run's error, or an error when that is nil.
func (e *Engine) Ready(ctx context.Context) error {
	for {
		e.mu.Lock()
		up, ended, endErr, changed := e.up, e.ended, e.endErr, e.changed
		e.mu.Unlock()
		switch {
		case up:
			return nil
		case ended && endErr != nil:
			return endErr
		case ended:
			return errors.New("engine stopped")
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for engine: %w", ctx.Err())
		}
	}
}

// Writer is the product's own user, who may do everything. It is known once Ready has returned nil, and stays the same
// across restarts.
func (e *Engine) Writer() Connection {
	id := e.currentIdentity()
	return e.cfg.connection(id, writerUser, id.WriterPassword)
}

// Reader is the user for dashboards: it reads, within limits of time and memory, and changes nothing. It is known once
// Ready has returned nil.
func (e *Engine) Reader() Connection {
	id := e.currentIdentity()
	return e.cfg.connection(id, readerUser, id.ReaderPassword)
}

// PID is the process running now, 0 when there is none.
func (e *Engine) PID() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.process == nil {
		return 0
	}
	return e.process.pid
}

func (e *Engine) currentIdentity() identity {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.identity
}

// change alters the guarded fields and wakes who waits for that.
func (e *Engine) change(alter func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	alter()
	close(e.changed)
	e.changed = make(chan struct{})
}
