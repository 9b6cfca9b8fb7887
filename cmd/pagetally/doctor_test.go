package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/pagetally/pagetally/schema"
	"github.com/pagetally/pagetally/schema/embedded/embeddedtest"
)

func migratedDatabase(t *testing.T) driver.Conn {
	t.Helper()
	conn := embeddedtest.Shared(t).Database(t)
	if _, err := schema.Migrate(t.Context(), conn, schema.Options{}); err != nil {
		t.Fatal(err)
	}
	return conn
}

func findingsOf(t *testing.T, conn driver.Conn) map[string]finding {
	t.Helper()
	found := map[string]finding{}
	for _, check := range clickhouseChecks {
		found[check.name] = runCheck(context.Background(), conn, check)
	}
	return found
}

func TestDoctorOnGoodTables(t *testing.T) {
	for name, f := range findingsOf(t, migratedDatabase(t)) {
		switch name {
		case "fsync", "clickhouse disk": // the tests' engine does not sync; the disk is the machine's
			continue
		}
		if f.Verdict != ok {
			t.Errorf("%s: %s %s", name, f.Verdict, f.Seen)
		}
	}
}

func TestDoctorFindsWhatIsBroken(t *testing.T) {
	tests := []struct {
		name, sql, check string
		want             verdict
	}{
		{"small window", "ALTER TABLE views MODIFY SETTING non_replicated_deduplication_window = 5", "windows", fail},
		{"no window", "ALTER TABLE events RESET SETTING non_replicated_deduplication_window", "windows", fail},
		{
			"sum near the end", `INSERT INTO views (site, name, bucket, path_key, job, n) VALUES ('a.example', 'pageview', 0, '/', '', 4700000000000000000)`,
			"sums", fail,
		},
		{
			"intent left", `INSERT INTO ledger (batch, state, node, at) VALUES ('01B', 'intent', 'n', now64(3) - 3600)`,
			"intents", warn,
		},
		{"history changed", "ALTER TABLE migrations DELETE WHERE 1 SETTINGS mutations_sync = 1", "migrations", warn},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conn := migratedDatabase(t)
			if err := conn.Exec(t.Context(), tt.sql); err != nil {
				t.Fatal(err)
			}
			f := findingsOf(t, conn)[tt.check]
			if f.Verdict != tt.want || f.Advice == "" {
				t.Errorf("%s is %s (%s), want %s and advice", tt.check, f.Verdict, f.Seen, tt.want)
			}
		})
	}
}

func TestDoctorOnEmptyDatabase(t *testing.T) {
	found := findingsOf(t, embeddedtest.Shared(t).Database(t))
	for _, name := range []string{"migrations", "windows"} {
		if f := found[name]; f.Verdict == ok {
			t.Errorf("%s is ok on an empty database: %s", name, f.Seen)
		}
	}
}

func TestDoctorLocal(t *testing.T) {
	s := &Settings{Data: t.TempDir(), JournalMax: 1}
	if err := os.Chmod(s.Data, 0o755); err != nil {
		t.Fatal(err)
	}
	if f := checkDataFolder(s); f.Verdict != warn || !strings.Contains(f.Advice, "0700") {
		t.Errorf("open folder: %+v", f)
	}
	if err := os.Chmod(s.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	if f := checkDataFolder(s); f.Verdict != ok {
		t.Errorf("closed folder: %+v", f)
	}
	file := &Settings{Data: filepath.Join(s.Data, "file")}
	if err := os.WriteFile(file.Data, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f := checkDataFolder(file); f.Verdict != fail {
		t.Errorf("file in place of a folder: %+v", f)
	}
	if f := checkEnvironment([]string{"PAGETALLY_JURNAL=1"}); f.Verdict != warn {
		t.Errorf("unknown variable: %+v", f)
	}
	if f := checkJournal(s); f.Verdict != ok {
		t.Errorf("no journal yet: %+v", f)
	}
}

func TestJudgeDisk(t *testing.T) {
	const gib = 1 << 30
	tests := []struct {
		free, total uint64
		want        verdict
	}{
		{50 * gib, 100 * gib, ok}, {9 * gib, 100 * gib, warn}, {1 * gib, 100 * gib, fail}, {100 << 20, gib, fail},
	}
	for _, tt := range tests {
		if got := judgeDisk("disk", "it", tt.free, tt.total); got.Verdict != tt.want {
			t.Errorf("%d of %d free: %s, want %s", tt.free, tt.total, got.Verdict, tt.want)
		}
	}
}

func TestWorst(t *testing.T) {
	if got := worst([]finding{passed("a", ""), failed("b", "", ""), warned("c", "", "")}); got != fail {
		t.Errorf("worst is %s, want fail", got)
	}
}
