//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"
)

// throughput loads both servers in turns.
func (b *bench) throughput(ctx context.Context, r *result, bare *process, server *counter) error {
	if err := b.warmUp(ctx, bare.addr, server.addr); err != nil {
		return err
	}
	if _, err := server.drained(ctx); err != nil {
		return err
	}
	offset, err := server.count(ctx)
	if err != nil {
		return err
	}
	books := newBooks(offset)
	memory, engineMemory := watch(server.pid()), watch(childOf(server.pid()))
	for i, connections := range b.Connections {
		profiled := b.Profile != "" && i == len(b.Connections)-1
		row, err := b.compare(ctx, connections, bare, server, books, profiled)
		if err != nil {
			return fmt.Errorf("%d connections: %w\n%s", connections, err, server.logTail())
		}
		r.Throughput = append(r.Throughput, row)
	}
	r.Memory = memoryRow{Pagetally: memory.end().PeakRSS, Engine: engineMemory.end().PeakRSS}
	return nil
}

// warmUp is not measured: caches fill, connections are known, code is paged in.
func (b *bench) warmUp(ctx context.Context, addrs ...string) error {
	for _, addr := range addrs {
		p := plan{addr: addr, connections: slices.Max(b.Connections), threads: b.Threads, during: min(2*time.Second, b.Duration)}
		if _, err := p.run(ctx, b.traffic); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	return nil
}

// compare loads both servers over a number of connections, in turns.
func (b *bench) compare(ctx context.Context, connections int, bare *process, server *counter, books *books, profiled bool) (throughputRow, error) {
	row := throughputRow{Connections: connections}
	floor, got := newLoad(), newLoad()
	var bareCPU, clientCPU, serverCPU, engineCPU time.Duration
	turn := plan{connections: connections, threads: b.Threads, during: b.Duration / time.Duration(b.Rounds)}
	for round := range b.Rounds {
		say("%d connections, round %d of %d", connections, round+1, b.Rounds)
		turn.addr = bare.addr
		watched, client := watch(bare.pid()), watch(os.Getpid())
		once, err := turn.run(ctx, b.traffic)
		bareCPU, clientCPU = bareCPU+watched.end().CPU, clientCPU+client.end().CPU
		if err != nil {
			return row, fmt.Errorf("bare: %w", err)
		}
		floor.add(once)

		turn.addr = server.addr
		if profiled && round == b.Rounds-1 {
			stop := b.profile(ctx, server.addr, turn.during)
			defer stop()
		}
		watched, engine := watch(server.pid()), watch(childOf(server.pid()))
		once, err = b.turn(ctx, turn, server, books, &row)
		serverCPU, engineCPU = serverCPU+watched.end().CPU, engineCPU+engine.end().CPU
		if err != nil {
			return row, fmt.Errorf("pagetally: %w", err)
		}
		got.add(once)
	}
	row.fill(floor, got)
	row.BareCPU, row.ClientCPU = microsEach(bareCPU, floor.Acknowledged), microsEach(clientCPU, floor.Acknowledged)
	row.ServerCPU, row.EngineCPU = microsEach(serverCPU, got.Acknowledged), microsEach(engineCPU, got.Acknowledged)
	return row, nil
}

// turn loads pagetally once, waits until it has delivered everything, and checks the books.
func (b *bench) turn(ctx context.Context, turn plan, server *counter, books *books, row *throughputRow) (*load, error) {
	l, err := turn.run(ctx, b.traffic)
	if err != nil {
		return l, err
	}
	drain, err := server.drained(ctx)
	if err != nil {
		return l, err
	}
	row.DrainSeconds = max(row.DrainSeconds, drain.Seconds())
	counted, err := server.count(ctx)
	if err != nil {
		return l, err
	}
	books.check(row, l, counted)
	return l, nil
}

// books compare what is counted with what was acknowledged.
type books struct {
	seen totals
}

func newBooks(begin totals) *books { return &books{seen: begin} }

// check books the events of one turn. Events without an answer may be counted or not.
func (b *books) check(row *throughputRow, l *load, now totals) {
	for _, added := range []int64{
		now.Events - b.seen.Events, now.Views - b.seen.Views, now.Visitors - b.seen.Visitors, now.Paths - b.seen.Paths,
	} {
		row.Lost = max(row.Lost, l.Acknowledged-added)
		row.Extra = max(row.Extra, added-l.Acknowledged-l.Unanswered)
	}
	b.seen = now
}

// profile fetches a CPU profile of the server's next while. The returned function waits until it is written.
func (b *bench) profile(ctx context.Context, addr string, during time.Duration) func() {
	done := make(chan error, 1)
	go func() { done <- fetchProfile(ctx, addr, during, b.Profile) }()
	return func() {
		if err := <-done; err != nil {
			say("no profile: %v", err)
		}
	}
}

func fetchProfile(ctx context.Context, addr string, during time.Duration, file string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", addr, max(int(during.Seconds()), 1))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	return os.WriteFile(file, body, 0o600)
}
