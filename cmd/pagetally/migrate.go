package main

import (
	"context"
	"fmt"
	"io"

	"github.com/pagetally/pagetally/schema"
)

// migrateCommand brings the tables up to this version.
type migrateCommand struct {
	DryRun bool `help:"Print the statements that would run, and change nothing."`
}

func (migrateCommand) Help() string {
	return "The server does this itself when it starts. By hand it is for a ClickHouse of your own whose user may not change tables: " +
		"run it once with one that may."
}

// Run migrates and says what it did.
func (c migrateCommand) Run(ctx context.Context, s *Settings, out io.Writer) error {
	db, err := connect(ctx, s)
	if err != nil {
		return err
	}
	defer db.Close()
	if !c.DryRun {
		if err := createDatabase(ctx, db.options); err != nil {
			return err
		}
	}
	report, err := schema.Migrate(ctx, db.Conn, schema.Options{DryRun: c.DryRun, Out: out})
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if c.DryRun {
		_, err = fmt.Fprintf(out, "%d statements would run; the database is at version %d\n", len(report.Applied), report.Version)
		return err
	}
	_, err = fmt.Fprintf(out, "%d statements ran; the database is at version %d\n", len(report.Applied), report.Version)
	return err
}
