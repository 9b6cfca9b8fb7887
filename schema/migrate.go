package schema

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

var (
	// ErrEditedHistory is returned when a migration that was run is not the one this binary holds. The message names the file.
	ErrEditedHistory = errors.New("migration was edited after it was run")
	// ErrNewerHistory is returned when the database was migrated by a newer binary. Run that one, or a newer one.
	ErrNewerHistory = errors.New("database was migrated by a newer version")
)

// Options of Migrate. The zero value migrates, logs nothing and waits for other migrations as the context allows.
type Options struct {
	Log *slog.Logger
	// DryRun prints the statements that are due to Out and changes nothing.
	DryRun bool
	Out    io.Writer
	// StaleAfter is the age at which the lock of another migration that gave no sign of life is broken; 5 minutes if zero.
	StaleAfter time.Duration
}

func (o *Options) fill() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	if o.StaleAfter == 0 {
		o.StaleAfter = 5 * time.Minute
	}
}

// Step is one statement of one migration.
type Step struct {
	Version   int
	File      string
	Statement int // from 1
	Of        int // statements in the file
	SQL       string

	checksum string
}

// Report says what Migrate did.
type Report struct {
	// Version is the database's version: the last migration of this binary, or with DryRun the last one that is complete.
	Version int
	// Applied are the statements that this call ran, or with DryRun would run.
	Applied []Step
}

// CreateDatabase makes a database unless it is there. conn may have any default database.
func CreateDatabase(ctx context.Context, conn driver.Conn, name string) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{"name": name}))
	if err := conn.Exec(ctx, "CREATE DATABASE IF NOT EXISTS {name:Identifier}"); err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

// Migrate runs the migrations that conn's default database lacks, statement by statement. Each statement is recorded after it
// ran, and every statement may be run again: a call that was killed is finished by the next one. Calls from several processes
// take turns. Errors: ErrEditedHistory and ErrNewerHistory before anything is changed, and whatever the server says.
func Migrate(ctx context.Context, conn driver.Conn, opts Options) (Report, error) {
	known, err := load(embedded, "migrations", singleNode)
	if err != nil {
		return Report{}, err
	}
	return migrate(ctx, conn, known, opts)
}

// Pending lists the statements that Migrate would run, with its errors.
func Pending(ctx context.Context, conn driver.Conn) ([]Step, error) {
	known, err := load(embedded, "migrations", singleNode)
	if err != nil {
		return nil, err
	}
	return pending(ctx, conn, known)
}

func migrate(ctx context.Context, conn driver.Conn, known []migration, opts Options) (Report, error) {
	opts.fill()
	steps, err := pending(ctx, conn, known)
	switch {
	case err != nil:
		return Report{}, err
	case opts.DryRun:
		return Report{Version: complete(known, steps), Applied: steps}, printSteps(opts.Out, steps)
	case len(steps) == 0:
		return Report{Version: len(known)}, nil
	}
	var report Report
	err = locked(ctx, conn, opts, func(ctx context.Context) error {
		// Whoever held the lock before may have done the work.
		if steps, err = pending(ctx, conn, known); err != nil {
			return err
		}
		report.Applied, err = run(ctx, conn, steps, opts)
		return err
	})
	report.Version = complete(known, steps[len(report.Applied):])
	return report, err
}

// complete is the version of a database in which steps are still to be run.
func complete(known []migration, steps []Step) int {
	if len(steps) == 0 {
		return len(known)
	}
	return steps[0].Version - 1
}

func run(ctx context.Context, conn driver.Conn, steps []Step, opts Options) (applied []Step, err error) {
	if err := createHistory(ctx, conn); err != nil {
		return nil, err
	}
	for i, s := range steps {
		if err := conn.Exec(ctx, s.SQL); err != nil {
			return steps[:i], fmt.Errorf("run %s statement %d of %d: %w", s.File, s.Statement, s.Of, err)
		}
		if err := record(ctx, conn, s); err != nil {
			return steps[:i], err
		}
		if s.Statement == s.Of {
			opts.Log.Info("migrated", "file", s.File, "statements", s.Of)
		}
	}
	return steps, nil
}

// printSteps writes steps as SQL that can be run as it stands.
func printSteps(w io.Writer, steps []Step) error {
	if len(steps) == 0 {
		_, err := fmt.Fprintln(w, "-- nothing to do")
		return err
	}
	for _, s := range steps {
		if _, err := fmt.Fprintf(w, "-- %s, statement %d of %d\n%s;\n\n", s.File, s.Statement, s.Of, s.SQL); err != nil {
			return fmt.Errorf("print migrations: %w", err)
		}
	}
	return nil
}
