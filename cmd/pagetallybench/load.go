//go:build linux

package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	maxConnections = 10_000
	// answerWait is how long the last requests of a load may take to be answered.
	answerWait = 30 * time.Second
)

// load is the outcome of loading a server.
type load struct {
	Acknowledged int64 // answered 202 without a header that says otherwise: promised to be counted
	Dropped      int64 // answered 202 with such a header
	Refused      int64 // answered otherwise, such as 503
	Unanswered   int64 // sent, and the connection ended or nothing came: counted or not
	Took         time.Duration
	Latency      *hdrhistogram.Histogram // microseconds from the first byte sent to the last received, of acknowledged requests
}

func newLoad() *load {
	return &load{Latency: hdrhistogram.New(1, answerWait.Microseconds(), 3)}
}

// add puts other's counts to l's, one after the other in time.
func (l *load) add(other *load) {
	l.Acknowledged += other.Acknowledged
	l.Dropped += other.Dropped
	l.Refused += other.Refused
	l.Unanswered += other.Unanswered
	l.Took += other.Took
	l.Latency.Merge(other.Latency)
}

// rate is acknowledged requests a second.
func (l *load) rate() float64 { return float64(l.Acknowledged) / l.Took.Seconds() }

// percentile of the latency, in milliseconds.
func (l *load) percentile(p float64) float64 { return float64(l.Latency.ValueAtPercentile(p)) / 1000 }

// plan says how to load a server.
type plan struct {
	addr        string
	connections int
	threads     int
	during      time.Duration
	most        int64 // requests at most, spread evenly over the threads; 0: no limit but the time
	rate        int   // requests a second in all; 0: as fast as they are answered
}

// run loads a server: each connection has one request in flight, and sends the next when the answer is there. It returns when
// all are answered.
func (p plan) run(ctx context.Context, t *traffic) (*load, error) {
	p.threads = min(p.threads, p.connections)
	clients := make([]*client, p.threads)
	defer func() {
		for _, c := range clients {
			c.close()
		}
	}()
	for i := range clients {
		share := p
		share.connections = part(p.connections, p.threads, i)
		share.rate = part(p.rate, p.threads, i)
		share.most = int64(part(int(p.most), p.threads, i))
		var err error
		if clients[i], err = newClient(share, t, i); err != nil {
			return nil, err
		}
	}
	errs := make([]error, len(clients))
	begun := time.Now()
	var running sync.WaitGroup
	for i, c := range clients {
		running.Go(func() { errs[i] = c.run(ctx, begun) })
	}
	running.Wait()
	total := newLoad()
	for _, c := range clients {
		total.add(c.load)
	}
	total.Took = time.Since(begun)
	return total, errors.Join(errs...)
}

// part is the i-th of n shares of a whole.
func part(whole, n, i int) int { return whole*(i+1)/n - whole*i/n }
