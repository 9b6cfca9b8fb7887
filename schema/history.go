package schema

import (
	"context"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// position names a statement in the history.
type position struct{ version, statement int }

// pending compares the history with the known migrations and lists what was not run, in order.
func pending(ctx context.Context, conn driver.Conn, known []migration) ([]Step, error) {
	done, err := history(ctx, conn, known)
	if err != nil {
		return nil, err
	}
	var steps []Step
	for _, m := range known {
		for i, sql := range m.statements {
			if done[position{m.version, i + 1}] {
				continue
			}
			steps = append(steps, Step{
				Version: m.version, File: m.file, Statement: i + 1, Of: len(m.statements), SQL: sql, checksum: m.checksum,
			})
		}
	}
	return steps, nil
}

// history reads which statements were run and refuses a history that the known migrations did not make.
func history(ctx context.Context, conn driver.Conn, known []migration) (map[position]bool, error) {
	var exists bool
	row := conn.QueryRow(ctx, "SELECT count() > 0 FROM system.tables WHERE database = currentDatabase() AND name = 'migrations'")
	if err := row.Scan(&exists); err != nil {
		return nil, fmt.Errorf("look for migrations: %w", err)
	}
	done := make(map[position]bool)
	if !exists {
		return done, nil
	}
	rows, err := conn.Query(ctx, "SELECT version, statement, file, checksum FROM migrations FINAL ORDER BY version, statement")
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var version, statement uint32
		var file, checksum string
		if err := rows.Scan(&version, &statement, &file, &checksum); err != nil {
			return nil, fmt.Errorf("read migrations: %w", err)
		}
		switch v := int(version); {
		case v > len(known):
			return nil, fmt.Errorf("%w: it has %s, this version ends at %s", ErrNewerHistory, file, known[len(known)-1].file)
		case v < 1 || known[v-1].checksum != checksum:
			return nil, fmt.Errorf("%w: %s", ErrEditedHistory, file)
		}
		done[position{int(version), int(statement)}] = true
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return done, nil
}

func createHistory(ctx context.Context, conn driver.Conn) error {
	err := conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS migrations
(
    version UInt32,
    statement UInt32,
    file String,
    checksum String COMMENT 'SHA-256 of the file',
    ran_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree(ran_at)
ORDER BY (version, statement)
COMMENT 'Statements of migrations that were run'`)
	if err != nil {
		return fmt.Errorf("create migrations: %w", err)
	}
	return nil
}

func record(ctx context.Context, conn driver.Conn, s Step) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"async_insert": 0}))
	err := conn.Exec(ctx, "INSERT INTO migrations (version, statement, file, checksum) SELECT ?, ?, ?, ?",
		s.Version, s.Statement, s.File, s.checksum)
	if err != nil {
		return fmt.Errorf("record %s statement %d: %w", s.File, s.Statement, err)
	}
	return nil
}
