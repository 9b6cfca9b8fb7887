//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// nowhere is a ClickHouse that does not answer: what arrives stays in the journal.
const nowhere = "clickhouse://127.0.0.1:1/pagetally"

// delivery fills a journal without an engine, lets pagetally deliver it, and inserts the same rows by hand for comparison.
func (b *bench) delivery(ctx context.Context, r *result) error {
	if b.Backlog == 0 {
		return nil
	}
	say("delivery of %d events", b.Backlog)
	data := filepath.Join(b.dir, "delivery")
	journaled, err := b.fillJournal(ctx, data)
	if err != nil {
		return fmt.Errorf("fill the journal: %w", err)
	}
	segments, err := linkSegments(filepath.Join(data, "journal", "sealed"), filepath.Join(b.dir, "raw", "sealed"))
	if err != nil {
		return fmt.Errorf("keep the journal: %w", err)
	}
	server, err := b.serve(ctx, data)
	if err != nil {
		return err
	}
	defer server.kill()
	row, err := deliver(ctx, server, journaled)
	if err != nil {
		return fmt.Errorf("deliver: %w\n%s", err, server.logTail())
	}
	engine := childOf(server.pid())
	row.CPU = microsEach(cpuTime(server.pid())+cpuTime(engine), journaled) // since their start: what else they did is little
	bare, inbox, err := insertRaw(ctx, server, segments, journaled)
	if err != nil {
		return fmt.Errorf("raw insert: %w", err)
	}
	row.BarePerSecond, row.BareCPU = float64(journaled)/bare.took.Seconds(), microsEach(bare.cpu, journaled)
	row.RawPerSecond, row.RawCPU = float64(journaled)/inbox.took.Seconds(), microsEach(inbox.cpu, journaled)
	r.Delivery = row
	return server.stop()
}

// fillJournal sends the backlog to a pagetally that has nowhere to deliver to, and stops it.
func (b *bench) fillJournal(ctx context.Context, data string) (int64, error) {
	p, err := b.start(ctx, data, "--clickhouse="+nowhere, "--stop-timeout=2s")
	if err != nil {
		return 0, err
	}
	defer p.kill()
	fill := plan{addr: p.addr, connections: 256, threads: b.Threads, during: 10 * time.Minute, most: int64(b.Backlog)}
	l, err := fill.run(ctx, b.traffic)
	if err != nil {
		return 0, err
	}
	if l.Acknowledged != int64(b.Backlog) {
		return 0, fmt.Errorf("%d of %d events accepted\n%s", l.Acknowledged, b.Backlog, p.logTail())
	}
	return l.Acknowledged, p.stop()
}

// linkSegments keeps the sealed segments under other names: delivery removes them.
func linkSegments(from, to string) ([]string, error) {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(from, "*.seg"))
	if err != nil {
		return nil, err
	}
	segments := make([]string, len(files))
	for i, file := range files {
		segments[i] = filepath.Join(to, filepath.Base(file))
		if err := os.Link(file, segments[i]); err != nil {
			return nil, err
		}
	}
	return segments, nil
}

// deliver waits until the backlog is stored. The ledger says when its first batch was begun and its last one stored.
func deliver(ctx context.Context, server *counter, journaled int64) (*deliveryRow, error) {
	if _, err := server.drained(ctx); err != nil {
		return nil, err
	}
	var first, last time.Time
	var batches uint64
	err := server.QueryRow(ctx, `SELECT minIf(at, state = 'intent'), maxIf(at, state = 'stored'), countIf(state = 'stored') FROM ledger FINAL`).
		Scan(&first, &last, &batches)
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	counted, err := server.count(ctx)
	if err != nil {
		return nil, err
	}
	took := last.Sub(first).Seconds()
	return &deliveryRow{
		Events: journaled, Batches: int64(batches), Seconds: took, PerSecond: float64(journaled) / took, Lost: journaled - counted.Events,
	}, nil
}
