package schema

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

const goldenDir = "testdata/tables"

func TestGoldenTables(t *testing.T) {
	got := createStatements(t, migratedDatabase(t))
	if *update {
		writeGolden(t, got)
	}
	if diff := cmp.Diff(readGolden(t), got); diff != "" {
		t.Errorf("tables differ from %s; go test ./schema -run Golden -update writes it anew (-want +got):\n%s", goldenDir, diff)
	}
}

var definer = regexp.MustCompile(`\n?DEFINER = \S+ SQL SECURITY DEFINER`)

// createStatements are the definitions of all tables and views, without what differs between databases and users.
func createStatements(t *testing.T, conn driver.Conn) map[string]string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT name, currentDatabase() FROM system.tables WHERE database = currentDatabase()")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	got := make(map[string]string)
	for rows.Next() {
		var name, database, sql string
		if err := rows.Scan(&name, &database); err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRow(t.Context(), "SHOW CREATE TABLE "+name).Scan(&sql); err != nil {
			t.Fatal(err)
		}
		got[name+".sql"] = definer.ReplaceAllString(strings.ReplaceAll(sql, database+".", ""), "") + "\n"
	}
	return got
}

func readGolden(t *testing.T) map[string]string {
	t.Helper()
	files, err := os.ReadDir(goldenDir)
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]string)
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(goldenDir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		want[f.Name()] = string(text)
	}
	return want
}

func writeGolden(t *testing.T, files map[string]string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(goldenDir), os.MkdirAll(goldenDir, 0o755)); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(goldenDir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMigrateTwice(t *testing.T) {
	conn := freshDatabase(t)
	due, err := Pending(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	first, err := Migrate(t.Context(), conn, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(due, first.Applied, cmp.AllowUnexported(Step{})); diff != "" {
		t.Errorf("applied is not what was pending (-want +got):\n%s", diff)
	}
	second, err := Migrate(t.Context(), conn, Options{})
	if err != nil || len(second.Applied) > 0 || second.Version != first.Version {
		t.Errorf("second run: got %+v, %v, want version %d and nothing applied", second, err, first.Version)
	}
}

func TestDryRunPrintsAndChangesNothing(t *testing.T) {
	conn := freshDatabase(t)
	var out bytes.Buffer
	report, err := Migrate(t.Context(), conn, Options{DryRun: true, Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	wantRows(t, conn, "SELECT name FROM system.tables WHERE database = currentDatabase()")
	if report.Version != 0 || len(report.Applied) == 0 {
		t.Errorf("got version %d and %d statements, want 0 and some", report.Version, len(report.Applied))
	}
	// What is printed does the whole job when it is run by hand.
	for _, statement := range split(out.String()) {
		exec(t, conn, statement)
	}
	got := createStatements(t, conn)
	want := readGolden(t)
	delete(want, "migrations.sql")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("printed statements make other tables (-want +got):\n%s", diff)
	}
	out.Reset()
	if _, err := Migrate(t.Context(), migratedDatabase(t), Options{DryRun: true, Out: &out}); err != nil || out.String() != "-- nothing to do\n" {
		t.Errorf("nothing due: printed %q, %v", out.String(), err)
	}
}

// killed is a connection whose process is killed around its first statement that is not in survived: before the server ran it, or
// after. Every later call fails too.
type killed struct {
	driver.Conn
	survived map[string]bool
	after    bool
	dead     bool
}

var errKilled = errors.New("killed")

func (k *killed) Exec(ctx context.Context, query string, args ...any) error {
	key := regexp.MustCompile(`COMMENT '.*'$`).ReplaceAllString(query, "") + fmt.Sprintf("%v", args)
	switch {
	case k.dead:
		return errKilled
	case k.survived[key]:
		return k.Conn.Exec(ctx, query, args...)
	}
	k.dead = true
	k.survived[key] = true
	if k.after {
		if err := k.Conn.Exec(ctx, query, args...); err != nil {
			return err
		}
	}
	return errKilled
}

func (k *killed) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	if k.dead {
		return nil, errKilled
	}
	return k.Conn.Query(ctx, query, args...)
}

func TestResumeAfterKillAtEveryStatement(t *testing.T) {
	for name, after := range map[string]bool{"before the server ran it": false, "after the server ran it": true} {
		t.Run(name, func(t *testing.T) {
			conn := freshDatabase(t)
			survived := make(map[string]bool)
			kills := 0
			for ; ; kills++ {
				if kills > 100 {
					t.Fatal("no end after 100 kills")
				}
				k := &killed{Conn: conn, survived: survived, after: after}
				_, err := Migrate(t.Context(), k, Options{})
				if err == nil {
					break
				}
				if !errors.Is(err, errKilled) {
					t.Fatalf("after %d kills: %v", kills, err)
				}
				// Its age would break the lock that the killed process left.
				exec(t, conn, "DROP TABLE IF EXISTS "+lockTable)
			}
			if diff := cmp.Diff(readGolden(t), createStatements(t, conn)); diff != "" {
				t.Errorf("after %d kills (-want +got):\n%s", kills, diff)
			}
			// Twice a statement (running and recording it), the history and the lock.
			if steps := len(ask(t, conn, "SELECT * FROM migrations FINAL")); kills < 2*steps+2 {
				t.Errorf("%d kills in %d statements, want one at each", kills, steps)
			}
		})
	}
}

func TestForeignHistoryIsRefused(t *testing.T) {
	conn := freshDatabase(t)
	file := func(sql string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(sql)} }
	files := fstest.MapFS{
		"m/0001_first.sql":  file("CREATE TABLE IF NOT EXISTS one (a UInt8) ENGINE = Null;\n"),
		"m/0002_second.sql": file("CREATE TABLE IF NOT EXISTS two (a UInt8) ENGINE = Null;\n"),
	}
	apply := func(files fstest.MapFS) error {
		known, err := load(files, "m", singleNode)
		if err != nil {
			return err
		}
		_, err = migrate(t.Context(), conn, known, Options{})
		return err
	}
	if err := apply(files); err != nil {
		t.Fatal(err)
	}

	edited := fstest.MapFS{"m/0001_first.sql": files["m/0001_first.sql"], "m/0002_second.sql": file("CREATE TABLE IF NOT EXISTS three (a UInt8) ENGINE = Null;\n")}
	if err := apply(edited); !errors.Is(err, ErrEditedHistory) || !strings.Contains(err.Error(), "0002_second.sql") {
		t.Errorf("edited file: got %v, want ErrEditedHistory naming 0002_second.sql", err)
	}
	older := fstest.MapFS{"m/0001_first.sql": files["m/0001_first.sql"]}
	if err := apply(older); !errors.Is(err, ErrNewerHistory) || !strings.Contains(err.Error(), "0002_second.sql") {
		t.Errorf("older binary: got %v, want ErrNewerHistory naming 0002_second.sql", err)
	}
	wantRows(t, conn, "SELECT name FROM system.tables WHERE database = currentDatabase() ORDER BY name", "'migrations'", "'one'", "'two'")
}

func TestConcurrentMigrationsRunOnce(t *testing.T) {
	conn := freshDatabase(t)
	reports := make([]Report, 4)
	errs := make([]error, len(reports))
	var wg sync.WaitGroup
	for i := range reports {
		wg.Go(func() { reports[i], errs[i] = Migrate(t.Context(), conn, Options{}) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	applied := 0
	for _, r := range reports {
		applied += len(r.Applied)
	}
	if records := len(ask(t, conn, "SELECT version, statement FROM migrations")); applied != records || applied == 0 {
		t.Errorf("%d statements run and %d recorded, want the same", applied, records)
	}
	wantRows(t, conn, "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name LIKE 'migration_lock%'", "0")
}

func TestLockOfALivingMigrationIsWaitedFor(t *testing.T) {
	conn := freshDatabase(t)
	exec(t, conn, "CREATE TABLE "+lockTable+" (nothing UInt8) ENGINE = Null COMMENT 'somebody else'")
	ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancel()
	_, err := Migrate(ctx, conn, Options{})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "somebody else") {
		t.Errorf("got %v, want a deadline that names the owner", err)
	}
	wantRows(t, conn, "SELECT comment FROM system.tables WHERE database = currentDatabase()", "'somebody else'")
}

func TestLockOfADeadMigrationIsBroken(t *testing.T) {
	conn := freshDatabase(t)
	exec(t, conn, "CREATE TABLE "+lockTable+" (nothing UInt8) ENGINE = Null COMMENT 'somebody dead'")
	if _, err := Migrate(t.Context(), conn, Options{StaleAfter: time.Second}); err != nil {
		t.Fatal(err)
	}
	wantRows(t, conn, "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = '"+lockTable+"'", "0")
}

func TestLostLockEndsTheMigration(t *testing.T) {
	conn := freshDatabase(t)
	err := locked(t.Context(), conn, Options{StaleAfter: 500 * time.Millisecond}, func(ctx context.Context) error {
		h, err := lockHolder(ctx, conn)
		if err != nil {
			return err
		}
		if err := breakLock(ctx, conn, h); err != nil {
			return err
		}
		exec(t, conn, "CREATE TABLE "+lockTable+" (nothing UInt8) ENGINE = Null COMMENT 'the next one'")
		// A second process that saw the same stale lock must not move the new one.
		if err := breakLock(ctx, conn, h); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, ErrLockLost) {
		t.Errorf("got %v, want ErrLockLost", err)
	}
	wantRows(t, conn, "SELECT comment FROM system.tables WHERE database = currentDatabase() AND name = '"+lockTable+"'", "'the next one'")
}
