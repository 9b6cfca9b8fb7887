package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pagetally/pagetally/aggregate"
)

// testVerify breaks the counter of the running server p, and has it found and repaired.
func testVerify(t *testing.T, p *process) {
	db, err := connect(t.Context(), &Settings{Data: p.data, ClickHouse: "embedded"})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	yesterday, tomorrow := time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly), time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)
	verify := func(args ...string) (stdout, stderr string, code int) {
		return pagetally(t, append([]string{"verify", "--data=" + p.data, "--from=" + yesterday, "--to=" + tomorrow}, args...)...)
	}
	expect := func(wantCode int, want string, args ...string) {
		t.Helper()
		stdout, stderr, code := verify(args...)
		if code != wantCode || !strings.Contains(strings.Join(strings.Fields(stdout+stderr), " "), want) {
			t.Errorf("%v: exit code %d, want %d and %q in %s%s", args, code, wantCode, want, stdout, stderr)
		}
	}
	expect(0, "verifying "+yesterday)
	if err := db.Exec(t.Context(), "INSERT INTO views SELECT * FROM views WHERE path_key = '/hello'"); err != nil {
		t.Fatal(err)
	}
	expect(1, "Run it again with --repair")
	expect(0, "views 0 0 0 0 0 0 0 0", "--site=nobody.example")
	expect(1, "takes one or all", "--site=a.example,b.example")

	stdout, stderr, code := verify("--json", "--site=example.com")
	var found aggregate.Verification
	if err := json.Unmarshal([]byte(stdout), &found); err != nil {
		t.Fatalf("%v in %s%s", err, stdout, stderr)
	}
	if code != 1 || len(found.Tables) != 3 || found.Tables[0].Table != "views" || found.Tables[0].Over != 3 || found.Tables[0].Differing == 0 {
		t.Errorf("exit code %d, found %+v, want 3 views too many", code, found)
	}
	expect(0, "repaired", "--repair")
	expect(0, "views")
	if stdout, _, _ = verify(); strings.Contains(stdout, "differs") {
		t.Errorf("after the repair: %s", stdout)
	}

	if _, stderr, code := pagetally(t, "verify", "--data="+p.data, "--from=yesterday", "--to="+tomorrow); code != 1 || !strings.Contains(stderr, "--from") {
		t.Errorf("bad date: exit code %d, %s", code, stderr)
	}
}
