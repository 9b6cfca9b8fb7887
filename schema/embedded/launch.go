package embedded

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// launcher holds what every start of one Run has in common.
type launcher struct {
	engine  *Engine
	library string
	lock    *directoryLock
	out     *transcript
	id      identity
}

// launch starts the engine and waits for its first answer. When ctx ends meanwhile the process is returned running,
// for the caller to stop.
func (l *launcher) launch(ctx context.Context) (*process, error) {
	e := l.engine
	if err := l.prepare(); err != nil {
		return nil, err
	}
	began := time.Now()
	p, err := startProcess(e.cfg, l.library, l.lock, l.out)
	if err != nil {
		return nil, err
	}
	e.change(func() { e.process = p })
	if err := l.lock.notePID(p.pid); err != nil {
		e.log.Warn("engine pid not noted", "error", err)
	}
	version, err := l.await(ctx, p)
	if err != nil {
		return p, err
	}
	took := time.Since(began)
	e.metrics.starts.Inc()
	e.metrics.up.Set(1)
	e.metrics.seconds.Set(took.Seconds())
	e.change(func() { e.up = true })
	e.log.Info("engine answers", "pid", p.pid, "version", version, "native", e.Writer().Addr,
		"http", e.Writer().HTTPAddr, "took", took.Round(time.Millisecond))
	return p, nil
}

// prepare does what only a directory without a running engine allows.
func (l *launcher) prepare() error {
	cfg := l.engine.cfg
	cut, err := cutDeduplicationLogs(filepath.Join(cfg.Dir, dataDir))
	if err != nil {
		return err
	}
	if cut > 0 {
		l.engine.metrics.tails.Add(float64(cut))
		l.engine.log.Warn("torn deduplication records cut", "tables", cut)
	}
	for _, port := range []int{l.id.TCPPort, l.id.HTTPPort} {
		if err := checkPort(cfg.ListenHost, port); err != nil {
			return err
		}
	}
	l.out.forget()
	return nil
}

// await waits for the first answer; a process that gives none in time, or is too old, is killed.
func (l *launcher) await(ctx context.Context, p *process) (string, error) {
	e := l.engine
	startCtx, cancel := context.WithTimeout(ctx, e.cfg.StartTimeout)
	defer cancel()
	version, err := awaitPing(startCtx, p, e.Writer())
	if err == nil || ctx.Err() != nil {
		return version, err
	}
	killErr := p.kill()
	e.change(func() { e.process = nil })
	if errors.Is(err, ErrTooOld) {
		return "", errors.Join(err, killErr)
	}
	said := l.out.lastLines()
	if strings.Contains(said, loadFailed) {
		return "", fmt.Errorf("%w: %s: %s", ErrBadLibrary, l.library, said)
	}
	return "", errors.Join(fmt.Errorf("%w: %w; it said: %q; see %s", ErrNotStarting, err, said,
		filepath.Join(e.cfg.Dir, logDir)), killErr)
}
