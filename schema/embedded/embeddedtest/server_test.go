package embeddedtest

import "testing"

func TestMain(m *testing.M) { Main(m) }

func TestDatabasesAreApart(t *testing.T) {
	server := Shared(t)
	first, second := server.Database(t), server.Database(t)
	if a, b := DatabaseName(t, first), DatabaseName(t, second); a == b {
		t.Fatalf("two tests share database %s", a)
	}
	if err := first.Exec(t.Context(), "CREATE TABLE t (n Int64) ENGINE = MergeTree ORDER BY n"); err != nil {
		t.Fatal(err)
	}
	if err := second.Exec(t.Context(), "INSERT INTO t VALUES (1)"); err == nil {
		t.Error("a table of one database is seen in the other")
	}
	if again := Shared(t); again.PID() != server.PID() || again.PID() == 0 {
		t.Errorf("second Shared gives pid %d, want %d", again.PID(), server.PID())
	}
}

func TestRestartKeepsDataAndPorts(t *testing.T) {
	server := Start(t, Options{})
	addr := server.Engine().Writer().Addr
	exec(t, server, "CREATE TABLE t (n Int64) ENGINE = MergeTree ORDER BY n")
	exec(t, server, "INSERT INTO t VALUES (1), (2)")
	for name, end := range map[string]func() error{"kill": server.Kill, "stop": server.Stop} {
		if err := end(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if pid := server.PID(); pid != 0 {
			t.Fatalf("%s leaves pid %d", name, pid)
		}
		if err := server.Restart(); err != nil {
			t.Fatalf("restart after %s: %v", name, err)
		}
		if got := server.Engine().Writer().Addr; got != addr {
			t.Errorf("address after %s = %s, want %s", name, got, addr)
		}
		exec(t, server, "SELECT throwIf(count() != 2) FROM t")
	}
}

// exec runs a query on a connection of its own: one left open makes a stop wait.
func exec(t *testing.T, server *Server, query string) {
	t.Helper()
	conn := server.connect(t, "")
	defer func() { _ = conn.Close() }()
	if err := conn.Exec(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}
