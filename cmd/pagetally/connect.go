package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/pagetally/pagetally/schema/embedded"
)

// connection is a command's way to ClickHouse: to a server of one's own, to the engine of the pagetally that runs on the data
// folder, or to an engine started for the time of the command.
type connection struct {
	driver.Conn
	options *clickhouse.Options
	stop    func() // ends the engine, if this process started it
}

// Close ends the connection, and the engine if it was started for it.
func (c *connection) Close() {
	_ = c.Conn.Close() // nothing was left unread
	c.stop()
}

// connect reaches ClickHouse or says why it cannot. The tables need not be there.
func connect(ctx context.Context, s *Settings) (*connection, error) {
	if !s.embedded() {
		options, err := serverOptions(s.ClickHouse)
		if err != nil {
			return nil, err
		}
		return open(ctx, options, func() {})
	}
	saved, _, err := embedded.Saved(embedded.Config{Dir: s.path(engineDir)})
	if err == nil {
		if c, err := open(ctx, engineOptions(saved), func() {}); err == nil {
			return c, nil
		}
	}
	return startEngine(ctx, s)
}

func open(ctx context.Context, options *clickhouse.Options, stop func()) (*connection, error) {
	conn, err := clickhouse.Open(options)
	if err != nil {
		return nil, fmt.Errorf("open clickhouse: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if err := conn.Ping(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("reach clickhouse: %w", err), conn.Close())
	}
	return &connection{Conn: conn, options: options, stop: stop}, nil
}

const pingTimeout = 5 * time.Second

// startEngine runs the embedded engine until the connection is closed.
func startEngine(ctx context.Context, s *Settings) (*connection, error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if err := os.MkdirAll(s.Data, 0o700); err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	engine, err := newEngine(s, log, nil)
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(running) }()
	stop := func() {
		cancel()
		if err := <-ended; err != nil {
			log.Warn("engine did not stop cleanly", "error", err)
		}
	}
	if err := engine.Ready(ctx); err != nil {
		cancel()
		<-ended
		return nil, fmt.Errorf("start engine: %w", err)
	}
	c, err := open(ctx, engineOptions(engine.Writer()), stop)
	if err != nil {
		stop()
	}
	return c, err
}
