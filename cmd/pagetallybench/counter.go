//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/pagetally/pagetally/schema/embedded"
)

// counter is a running pagetally, with a connection to its engine that looks at the tables behind its back.
type counter struct {
	*process
	driver.Conn
}

// engineDir is where pagetally keeps its engine in the data folder.
const engineDir = "clickhouse"

// connect waits until pagetally is ready and connects to its engine.
func (c *counter) connect(ctx context.Context, data string) error {
	if err := c.await(ctx, startWait, c.ready); err != nil {
		return fmt.Errorf("pagetally is not ready: %w", err)
	}
	writer, _, err := embedded.Saved(embedded.Config{Dir: filepath.Join(data, engineDir)})
	if err != nil {
		return fmt.Errorf("find the engine: %w", err)
	}
	c.Conn, err = clickhouse.Open(&clickhouse.Options{
		Addr:        []string{writer.Addr},
		Auth:        clickhouse.Auth{Username: writer.User, Password: writer.Password, Database: writer.Database},
		DialTimeout: 5 * time.Second,
		ReadTimeout: 5 * time.Minute,
	})
	return err
}

// stop ends pagetally in order.
func (c *counter) stop() error {
	return errors.Join(c.Close(), c.process.stop())
}

func (c *counter) ready(ctx context.Context) error {
	return c.get(ctx, "/readyz", nil)
}

// get reads a path of pagetally into v, if v is not nil.
func (c *counter) get(ctx context.Context, path string, v any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.addr+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return err
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: %s %s", path, response.Status, body)
	case v == nil:
		return nil
	}
	return json.Unmarshal(body, v)
}

// await repeats a check until it succeeds.
func (c *counter) await(ctx context.Context, within time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case exit := <-c.exited:
			c.exited <- exit
			return errors.Join(err, fmt.Errorf("pagetally ended: %w", exit))
		}
	}
}

// drained waits until everything that was acknowledged is delivered, and says how long it took.
func (c *counter) drained(ctx context.Context) (time.Duration, error) {
	begun := time.Now()
	err := c.await(ctx, 10*time.Minute, func(ctx context.Context) error {
		var ledger struct{ Pending, Open int64 }
		if err := c.get(ctx, "/v1/ledger", &ledger); err != nil {
			return err
		}
		if ledger.Pending != 0 || ledger.Open != 0 {
			return fmt.Errorf("%d events and %d batches wait for delivery", ledger.Pending, ledger.Open)
		}
		return nil
	})
	return time.Since(begun), err
}

// totals is what each table counts, of all sites, pages and names.
type totals struct {
	Events, Views, Visitors, Paths int64
}

// count adds up each table that events flow into.
func (c *counter) count(ctx context.Context) (t totals, err error) {
	for _, sum := range []struct {
		sql  string
		into *int64
	}{
		{"SELECT sum(n) FROM events", &t.Events},
		{"SELECT sum(n) FROM views", &t.Views},
		{"SELECT sum(n) FROM visitors", &t.Visitors},
		{"SELECT sum(n) FROM dimensions WHERE dimension = 'path'", &t.Paths},
	} {
		if err := c.QueryRow(ctx, sum.sql).Scan(sum.into); err != nil {
			return t, fmt.Errorf("%s: %w", sum.sql, err)
		}
	}
	return t, nil
}
