package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pagetally/pagetally/schema"
	"github.com/pagetally/pagetally/schema/embedded"
)

// database is ClickHouse as the other parts see it: a connection that may be used at once and fails until the server
// answers, and the moment from which on the tables are there.
type database struct {
	driver.Conn
	options  *clickhouse.Options
	engine   *embedded.Engine // nil at a server of one's own
	log      *slog.Logger
	migrated chan struct{}         // closed when the tables are there
	blocked  atomic.Pointer[error] // why they are not, as last seen

	claimWindow time.Duration // for which event ids are kept
}

// openDatabase makes the connection; it reaches for nothing yet.
func openDatabase(s *Settings, log *slog.Logger, metrics prometheus.Registerer) (db *database, err error) {
	db = &database{log: log, migrated: make(chan struct{}), claimWindow: s.ClaimWindow}
	if s.embedded() {
		if _, err = embedded.Locate(s.EngineLib); err != nil {
			return nil, err // now, before anything listens
		}
		if db.engine, err = newEngine(s, log, metrics); err != nil {
			return nil, err
		}
		if err = db.engine.Identify(); err != nil {
			return nil, err
		}
		db.options = engineOptions(db.engine.Writer())
	} else if db.options, err = serverOptions(s.ClickHouse); err != nil {
		return nil, err
	}
	if db.Conn, err = clickhouse.Open(db.options); err != nil {
		return nil, fmt.Errorf("open clickhouse: %w", err)
	}
	return db, nil
}

// engineDir is the embedded engine's folder in the data folder.
const engineDir = "clickhouse"

func newEngine(s *Settings, log *slog.Logger, metrics prometheus.Registerer) (*embedded.Engine, error) {
	return embedded.New(embedded.Config{
		Dir:         s.path(engineDir),
		Library:     s.EngineLib,
		Database:    databaseName,
		MemoryLimit: int64(s.EngineMemory),
		Logger:      log,
		Registerer:  metrics,
	})
}

// serverOptions reads the URL of a server of one's own.
func serverOptions(url string) (*clickhouse.Options, error) {
	options, err := clickhouse.ParseDSN(url)
	if err != nil {
		return nil, fmt.Errorf("--clickhouse: %w", err)
	}
	if options.Auth.Database == "" {
		options.Auth.Database = databaseName
	}
	return withPool(options), nil
}

// engineOptions reaches the embedded engine. On the same machine compressing a block costs more than sending it.
func engineOptions(facts embedded.Connection) *clickhouse.Options {
	return withPool(&clickhouse.Options{
		Addr:        []string{facts.Addr},
		Auth:        clickhouse.Auth{Username: facts.User, Password: facts.Password, Database: facts.Database},
		Compression: &clickhouse.Compression{Method: clickhouse.CompressionNone},
	})
}

// withPool bounds the connections and sets what the URL left open.
func withPool(o *clickhouse.Options) *clickhouse.Options {
	o.ClientInfo.Products = append(o.ClientInfo.Products, struct{ Name, Version string }{"pagetally", version})
	if o.MaxOpenConns == 0 {
		o.MaxOpenConns = 16
	}
	if o.MaxIdleConns == 0 {
		o.MaxIdleConns = 8
	}
	if o.Settings == nil {
		o.Settings = clickhouse.Settings{}
	}
	maps.Copy(o.Settings, schema.ExactSettings())
	if o.DialTimeout == 0 {
		o.DialTimeout = 5 * time.Second
	}
	// A connection otherwise keeps the buffer of the largest block it ever sent: as many megabytes as there are connections. A
	// column is sent once that much is encoded.
	o.FreeBufOnConnRelease = true
	if o.MaxCompressionBuffer == 0 {
		o.MaxCompressionBuffer = 1 << 20
	}
	if o.Compression == nil {
		o.Compression = &clickhouse.Compression{Method: clickhouse.CompressionLZ4}
	}
	return o
}

// Waits between two tries to bring the tables up to date.
const (
	migrateRetryFirst = 500 * time.Millisecond
	migrateRetryMost  = 30 * time.Second
)

// prepare brings the tables up to this version, trying until the server answers, closes db.migrated and waits for the end.
// A history that this binary must not touch is an error: no retry mends it.
func (db *database) prepare(ctx context.Context) error {
	wait := migrateRetryFirst
	for failing := false; ; failing = true {
		err := db.migrate(ctx)
		db.blocked.Store(&err)
		switch {
		case err == nil:
			db.log.Info("tables ready", "database", db.options.Auth.Database)
			close(db.migrated)
			<-ctx.Done()
			return nil
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, schema.ErrEditedHistory), errors.Is(err, schema.ErrNewerHistory):
			return err
		case !failing:
			db.log.Warn("clickhouse not ready, events wait in the journal", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
			wait = min(2*wait, migrateRetryMost)
		}
	}
}

func (db *database) migrate(ctx context.Context) error {
	if db.engine != nil {
		if err := db.engine.Ready(ctx); err != nil {
			return err
		}
	}
	if err := createDatabase(ctx, db.options); err != nil {
		return err
	}
	if _, err := schema.Migrate(ctx, db.Conn, schema.Options{Log: db.log}); err != nil {
		return err
	}
	if db.claimWindow <= migratedClaimWindow {
		return nil
	}
	return schema.KeepEventIDs(ctx, db.Conn, db.claimWindow)
}

// migratedClaimWindow is the claim window for which the migrations have event ids kept.
const migratedClaimWindow = 48 * time.Hour

// createDatabase needs a connection of its own: none can be made to a database that is not there.
func createDatabase(ctx context.Context, options *clickhouse.Options) error {
	plain := *options
	plain.Auth.Database = "default"
	conn, err := clickhouse.Open(&plain)
	if err != nil {
		return fmt.Errorf("open clickhouse: %w", err)
	}
	defer func() { _ = conn.Close() }()
	return schema.CreateDatabase(ctx, conn, options.Auth.Database)
}

// ready is the part of /readyz.
func (db *database) ready() error {
	select {
	case <-db.migrated:
	default:
		if err := db.blocked.Load(); err != nil && *err != nil {
			return *err
		}
		return errors.New("starting")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return db.Conn.Ping(ctx)
}

// awaitTables waits until prepare is done.
func (db *database) awaitTables(ctx context.Context) error {
	select {
	case <-db.migrated:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
