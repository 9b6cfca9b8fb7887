//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

const (
	realtimePause  = 10 * time.Millisecond
	recentClients  = 16 // connections, of either side
	recentPages    = 10 // that are asked for, and the site
	redisKey       = "pagetallybench"
	redisStartWait = 10 * time.Second
)

// probeSites are the sites that the probers of realtime have for themselves.
func probeSites() []string {
	sites := make([]string, probers)
	for i := range sites {
		sites[i] = fmt.Sprintf("probe%d.example", i)
	}
	return sites
}

// hot measures what Redis answers, with a server that this machine's redis-server is the Redis of.
func (b *bench) hot(ctx context.Context, r *result) error {
	if b.Visible == 0 {
		return nil
	}
	redis, err := startRedis(ctx, b.Redis, b.dir)
	if errors.Is(err, exec.ErrNotFound) {
		say("no %s: recent counts are not measured", b.Redis)
		return nil
	}
	if err != nil {
		return err
	}
	defer redis.kill()
	if err := b.cost(ctx, r, redis.addr); err != nil {
		return fmt.Errorf("cost of Redis: %w", err)
	}
	server, err := b.serve(ctx, filepath.Join(b.dir, "hot"), "--redis=redis://"+redis.addr+"/0")
	if err != nil {
		return err
	}
	defer server.kill()
	if err := b.realtime(ctx, r, server, "server"); err != nil {
		return err
	}
	if _, err := server.drained(ctx); err != nil {
		return err
	}
	if r.Recent, err = b.recent(ctx, server, redis.addr); err != nil {
		return fmt.Errorf("recent counts: %w", err)
	}
	return server.stop()
}

// costConnections load both servers of cost.
const costConnections = 256

// cost compares a server whose hot counts and claims are in Redis with one that has neither, in turns, under events with ids.
func (b *bench) cost(ctx context.Context, r *result, redis string) error {
	var loads [2]*load
	var cpu [2]time.Duration
	var servers [2]*counter
	for i, where := range []string{"off", "redis://" + redis + "/0"} {
		server, err := b.serve(ctx, filepath.Join(b.dir, fmt.Sprint("cost", i)), "--redis="+where)
		if err != nil {
			return err
		}
		defer server.kill()
		servers[i], loads[i] = server, newLoad()
	}
	events := newTrafficWithIDs()
	turn := plan{connections: costConnections, threads: b.Threads, during: b.Duration / time.Duration(b.Rounds)}
	for round := range b.Rounds + 1 { // the first warms up
		say("with Redis and without, round %d of %d", round, b.Rounds)
		for i, server := range servers {
			turn.addr = server.addr
			watched := watch(server.pid())
			once, err := turn.run(ctx, events)
			if err != nil {
				return err
			}
			if _, err := server.drained(ctx); err != nil {
				return err
			}
			if spent := watched.end().CPU; round > 0 {
				loads[i].add(once)
				cpu[i] += spent
			}
		}
	}
	r.Cost = &costRow{
		Connections: costConnections, Without: loads[0].rate(), With: loads[1].rate(),
		WithoutCPU: microsEach(cpu[0], loads[0].Acknowledged), WithCPU: microsEach(cpu[1], loads[1].Acknowledged),
	}
	return errors.Join(servers[0].stop(), servers[1].stop())
}

// startRedis starts a redis-server that keeps nothing on disk. It is bound to loopback and takes clients from every address of it.
func startRedis(ctx context.Context, binary, dir string) (*process, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	log := filepath.Join(dir, "redis.log")
	p := &process{
		cmd:  exec.Command(binary, "--port", port, "--bind", "127.0.0.1", "--protected-mode", "no", "--save", "", "--dir", dir, "--logfile", log),
		addr: addr, log: log, exited: make(chan error, 1),
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { p.exited <- p.cmd.Wait() }()
	for until := time.Now().Add(redisStartWait); ; {
		if err = setRedisKey(addr); err == nil {
			return p, nil
		}
		if time.Now().After(until) || pause(ctx, 20*time.Millisecond) != nil {
			p.kill()
			return nil, fmt.Errorf("redis-server: %w\n%s", err, p.logTail())
		}
	}
}

// setRedisKey makes the key that is read for comparison.
func setRedisKey(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write(redisCommand("SET", redisKey, "1234567")); err != nil {
		return err
	}
	answer := make([]byte, len("+OK\r\n"))
	if _, err := conn.Read(answer); err != nil {
		return err
	}
	if string(answer) != "+OK\r\n" {
		return fmt.Errorf("redis answered %q", answer)
	}
	return nil
}

// redisCommand is a command in Redis' protocol, RESP.
func redisCommand(words ...string) []byte {
	command := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, word := range words {
		command = fmt.Appendf(command, "$%d\r\n%s\r\n", len(word), word)
	}
	return command
}

// realtime measures, under moderate load, from the acknowledgement of a view until GET /v1/realtime counts it, answering from Redis.
// The answer is up to realtimePause late.
func (b *bench) realtime(ctx context.Context, r *result, server *counter, redis string) error {
	say("realtime at %d requests/s, Redis %s", b.Rate, redis)
	views := make([]int64, probers)
	for i, site := range probeSites() {
		err := server.await(ctx, startWait, func(ctx context.Context) (err error) {
			views[i], err = realtimeViews(ctx, server, site)
			return err
		})
		if err != nil {
			return fmt.Errorf("realtime: %w", err)
		}
	}
	row, err := b.underLoad(ctx, server, func(ctx context.Context, i int) (time.Duration, error) {
		views[i]++
		return probeRealtime(ctx, server, probeSites()[i], views[i])
	})
	if err != nil {
		return fmt.Errorf("realtime: %w", err)
	}
	r.Realtime = append(r.Realtime, realtimeRow{redis, *row})
	return nil
}

// realtimeViews is a site's views of the last half hour, as Redis has them.
func realtimeViews(ctx context.Context, server *counter, site string) (int64, error) {
	var answer struct {
		Views struct {
			Last30 int64 `json:"last_30_minutes"`
		}
		Meta struct{ Source, Reason string }
	}
	if err := server.get(ctx, "/v1/realtime?site="+site, &answer); err != nil {
		return 0, err
	}
	if answer.Meta.Source != "hot" {
		return 0, fmt.Errorf("realtime is answered from %s: %s", answer.Meta.Source, answer.Meta.Reason)
	}
	return answer.Views.Last30, nil
}

// probeRealtime sends a view of a site at a random moment and waits until its views are want.
func probeRealtime(ctx context.Context, server *counter, site string, want int64) (time.Duration, error) {
	if err := pauseAtRandom(ctx); err != nil {
		return 0, err
	}
	if err := sendView(ctx, server, site, "/"); err != nil {
		return 0, err
	}
	acknowledged := time.Now()
	for {
		views, err := realtimeViews(ctx, server, site)
		took := time.Since(acknowledged)
		switch {
		case err != nil:
			return 0, err
		case views == want:
			return took, nil
		case views > want:
			return 0, fmt.Errorf("%s has %d views, %d were sent", site, views, want)
		case took > probeWait:
			return 0, fmt.Errorf("a view of %s is not shown after %s", site, took)
		}
		if err := pause(ctx, realtimePause); err != nil {
			return 0, err
		}
	}
}

// recent compares recent counts over HTTP with the GET of one key: the same client, number of connections and rate, in turns.
func (b *bench) recent(ctx context.Context, server *counter, redis string) (*recentRow, error) {
	say("recent counts at %d requests/s", b.ReadRate)
	bare := &traffic{requests: [][]byte{redisCommand("GET", redisKey)}, parse: parseBulk}
	reads := &traffic{requests: b.recentRequests(server.addr), parse: parseRecent}
	turn := plan{connections: recentClients, threads: 1, rate: b.ReadRate, during: b.Duration / time.Duration(b.Rounds)}
	floor, got := newLoad(), newLoad()
	for round := range b.Rounds + 1 {
		for _, side := range []struct {
			addr string
			*traffic
			into *load
		}{{redis, bare, floor}, {server.addr, reads, got}} {
			turn.addr = side.addr
			once, err := turn.run(ctx, side.traffic)
			if err != nil {
				return nil, err
			}
			if round > 0 { // the first one warms up: bases are read, pages are paged in
				side.into.add(once)
			}
		}
	}
	if n := got.Refused + got.Unanswered + floor.Refused + floor.Unanswered; n > 0 {
		return nil, fmt.Errorf("%d answers are missing or not recent", n)
	}
	return &recentRow{
		Connections: recentClients, Rate: got.rate(), Answers: got.Acknowledged,
		BareP50: floor.percentile(50), BareP99: floor.percentile(99), P50: got.percentile(50), P99: got.percentile(99),
	}, nil
}

// recentRequests ask for the site and for some of its pages.
func (b *bench) recentRequests(addr string) [][]byte {
	paths := []string{""}
	for page := range recentPages {
		paths = append(paths, "&path="+pagePath(page))
	}
	requests := make([][]byte, len(paths))
	for i, path := range paths {
		requests[i] = fmt.Appendf(nil, "GET /v1/count?site=%s&mode=recent%s HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\n\r\n", site, path, addr)
	}
	return requests
}

var (
	okHead     = fmt.Appendf(nil, "HTTP/1.1 %d ", http.StatusOK)
	fromRecent = []byte(`"source":"recent"`)
)

// parseRecent takes an answer that is recent for acknowledged, all else for refused.
func parseRecent(b []byte) (a answer, complete bool) {
	if _, complete = parseAnswer(b); complete && bytes.HasPrefix(b, okHead) && bytes.Contains(b, fromRecent) {
		return acknowledged, true
	}
	return refused, complete
}

// parseBulk reads a string in Redis' protocol.
func parseBulk(b []byte) (a answer, complete bool) {
	head, rest, found := bytes.Cut(b, []byte("\r\n"))
	if !found {
		return refused, false
	}
	n, err := strconv.Atoi(string(bytes.TrimPrefix(head, []byte("$"))))
	if err != nil || n < 0 {
		return refused, true
	}
	return acknowledged, len(rest) >= n+2
}
