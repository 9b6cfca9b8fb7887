package main

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/pagetally/pagetally/schema/embedded/embeddedtest"
)

// TestServerOfOnesOwn runs pagetally on a server that it does not start.
func TestServerOfOnesOwn(t *testing.T) {
	engine := embeddedtest.Shared(t)
	database := embeddedtest.DatabaseName(t, engine.Database(t))
	options := engine.Options(database)
	u := url.URL{Scheme: "clickhouse", User: url.UserPassword(options.Auth.Username, options.Auth.Password), Host: options.Addr[0], Path: database}
	flag := "--clickhouse=" + u.String()

	p := startServer(t, t.TempDir(), flag)
	p.send("/own")
	p.awaitCount("/own", 1)
	stdout, stderr, _ := pagetally(t, "doctor", flag, "--data="+p.data)
	if !strings.Contains(stdout, "ok    intents") {
		t.Errorf("doctor: %s%s", stdout, stderr)
	}
	p.stop()
	if strings.Contains(p.stderr.String()+stdout+stderr, options.Auth.Password) {
		t.Error("the password was printed")
	}
	if _, err := os.Stat(p.data + "/" + engineDir); err == nil {
		t.Error("an engine's folder was made")
	}
}

// TestSQLOfDeployments has a real server parse what the README tells operators to run. It cannot run it: the embedded engine
// keeps no users of its own.
func TestSQLOfDeployments(t *testing.T) {
	conn := embeddedtest.Shared(t).Database(t)
	for _, file := range []string{"grants.sql", "grafana.sql"} {
		found := statements(t, "../../deployments/clickhouse/"+file)
		if len(found) < 2 {
			t.Errorf("%s has %d statements", file, len(found))
		}
		for _, statement := range found {
			rows, err := conn.Query(t.Context(), "EXPLAIN AST "+statement)
			if err != nil {
				t.Errorf("%s: %v\n%s", file, err, statement)
				continue
			}
			_ = rows.Close()
		}
	}
	if _, err := conn.Query(t.Context(), "EXPLAIN AST GRANT SELECT TO ON nobody"); err == nil {
		t.Error("nonsense parses: the test shows nothing")
	}
}

func statements(t *testing.T, path string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var sql strings.Builder
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "--") {
			fmt.Fprint(&sql, line)
		}
	}
	for statement := range strings.SplitSeq(sql.String(), ";") {
		if statement = strings.TrimSpace(statement); statement != "" {
			all = append(all, statement)
		}
	}
	return all
}

// TestViewsOfReadme reads each view that the README lists, by the columns that it lists.
func TestViewsOfReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| view | columns |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	conn := migratedDatabase(t)
	views := 0
	for line := range strings.Lines(table) {
		view, columns, ok := strings.Cut(strings.Trim(line, "| \n"), " | ")
		if !ok || strings.HasPrefix(view, "---") {
			continue
		}
		views++
		query := "SELECT " + columns + " FROM " + strings.Trim(view, "`") + " LIMIT 0"
		if err := conn.Exec(t.Context(), query); err != nil {
			t.Errorf("%s: %v", query, err)
		}
	}
	if views < 3 {
		t.Errorf("%d views found in the README", views)
	}
}
