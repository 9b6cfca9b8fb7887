package aggregate

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/oklog/ulid/v2"

	"github.com/pagetally/pagetally/schema"
)

// Conn is the connection delivery writes through; its default database holds the tables.
type Conn = driver.Conn

// insert makes one attempt to insert b through the inbox.
func (d *Delivery) insert(ctx context.Context, g *group, b *Batch) error {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.InsertTimeout)
	defer cancel()
	start := d.now()
	err := schema.CheckFeeds(ctx, d.conn)
	if err == nil {
		err = g.send(d.insertContext(ctx, g, b.ID), d.conn, schema.ToInbox, b, nil)
	}
	d.metrics.insertSeconds.Observe(d.now().Sub(start).Seconds())
	d.metrics.inserts.WithLabelValues(classify(err).String()).Inc()
	return err
}

// insertContext carries the decided settings, the token and a query id that waitGone finds again, also after a restart.
func (d *Delivery) insertContext(ctx context.Context, g *group, token ulid.ULID) context.Context {
	settings := clickhouse.Settings{tokenSetting: token.String()}
	for name, value := range g.Settings {
		settings[name] = value
	}
	return clickhouse.Context(ctx, clickhouse.WithSettings(settings), clickhouse.WithQueryID(d.queryID(token)))
}

// queryID names one attempt: the prefix tells the batch, the suffix makes it unique, since the server refuses to run an id twice.
func (d *Delivery) queryID(batch ulid.ULID) string {
	return queryIDPrefix(batch) + d.newID().String()
}

func queryIDPrefix(batch ulid.ULID) string { return "pagetally-" + batch.String() + "-" }

// goneAfter is how long an abandoned query is given to end by itself before it is killed.
const goneAfter = 30 * time.Second

// waitGone returns once no query of b runs on the server any more, so that what the tables hold of b stays as it is.
func (d *Delivery) waitGone(ctx context.Context, b *Batch) error {
	deadline := d.now().Add(goneAfter)
	prefix := clickhouse.Named("prefix", queryIDPrefix(b.ID))
	for {
		var running uint64
		err := d.conn.QueryRow(ctx, `SELECT count() FROM system.processes WHERE startsWith(query_id, {prefix:String})`, prefix).Scan(&running)
		if err != nil {
			return fmt.Errorf("look for running inserts: %w", err)
		}
		if running == 0 {
			return nil
		}
		if d.now().After(deadline) {
			deadline = d.now().Add(goneAfter)
			d.log.Warn("killing an abandoned insert", "batch", b.ID)
			if err := d.conn.Exec(ctx, `KILL QUERY WHERE startsWith(query_id, {prefix:String}) ASYNC`, prefix); err != nil {
				return fmt.Errorf("kill abandoned insert: %w", err)
			}
		}
		if err := d.pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// pause waits for a while or until ctx ends, whose error it then returns.
func (d *Delivery) pause(ctx context.Context, wait time.Duration) error { return pause(ctx, wait) }

func pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
