//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// bench is one run of all measurements.
type bench struct {
	measureCommand
	dir     string
	traffic *traffic
}

func (b *bench) run(ctx context.Context) (*result, error) {
	b.traffic = newTraffic()
	r := &result{Go: runtime.Version(), Cores: runtime.NumCPU(), Threads: b.Threads, Seconds: b.Duration.Seconds()}
	for _, measure := range []func(context.Context, *result) error{b.online, b.hot, b.delivery} {
		if err := measure(ctx, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// online measures what needs a running server: throughput and visibility.
func (b *bench) online(ctx context.Context, r *result) error {
	bare, err := startBare(ctx, b.dir)
	if err != nil {
		return err
	}
	defer bare.kill()
	server, err := b.serve(ctx, filepath.Join(b.dir, "online"))
	if err != nil {
		return err
	}
	defer server.kill()
	if err := b.throughput(ctx, r, bare, server); err != nil {
		return err
	}
	if b.Visible > 0 {
		if err := b.visibility(ctx, r, server); err != nil {
			return err
		}
		if err := b.realtime(ctx, r, server, "embedded"); err != nil {
			return err
		}
	}
	return server.stop()
}

// serve starts pagetally with its engine and waits until the tables are there.
func (b *bench) serve(ctx context.Context, data string, args ...string) (*counter, error) {
	p, err := b.start(ctx, data, args...)
	if err != nil {
		return nil, err
	}
	c := &counter{process: p}
	if err := c.connect(ctx, data); err != nil {
		p.kill()
		return nil, fmt.Errorf("%w\n%s", err, p.logTail())
	}
	return c, nil
}

// siteSettings have the rates looked at, as in production, and set as high as they may be: each connection is an address that
// sends far more than a person, and all send to one site. The sites of the probers are as they come.
var siteSettings = "[{domain: " + site + ", address-limit: 1000000, site-limit: 1000000}, {domain: " + strings.Join(probeSites(), "}, {domain: ") + "}]"

// start runs `pagetally serve` on data.
func (b *bench) start(ctx context.Context, data string, args ...string) (*process, error) {
	args = append([]string{"serve", "--listen=127.0.0.1:0", "--sites=" + siteSettings, "--data=" + data, "--pprof"}, args...)
	if b.EngineLib != "" {
		args = append(args, "--engine-lib="+b.EngineLib)
	}
	return startProcess(ctx, filepath.Join(b.dir, "pagetally.log"), b.Binary, args...)
}

// say tells a person who waits what goes on.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
