package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// testCommands runs the other commands beside the running server p, which counts three views of /hello.
func testCommands(t *testing.T, p *process) {
	t.Run("query", func(t *testing.T) {
		tests := []struct {
			args []string
			want string // in the output without spaces
		}{
			{[]string{"count", "example.com", "--path=/hello/", "--json"}, `"views":3`},
			{[]string{"count", "example.com", "--path=/hello"}, "example.com/hello3"},
			{[]string{"totals", "example.com"}, "views3"},
			{[]string{"top", "example.com", "--dimension=browser"}, "Firefox3"},
			{[]string{"timeseries", "example.com", "--period=day", "--interval=day", "--json"}, `"views":3`},
		}
		for _, tt := range tests {
			stdout, stderr, code := pagetally(t, append([]string{"query", "--data=" + p.data}, tt.args...)...)
			if code != 0 || !strings.Contains(strings.Join(strings.Fields(stdout), ""), tt.want) {
				t.Errorf("%v: exit code %d, %s%s", tt.args, code, stdout, stderr)
			}
		}
		_, stderr, code := pagetally(t, "query", "count", "example.com", "--tz=Mars/Olympus", "--data="+p.data)
		if code != 1 || !strings.Contains(stderr, "tz") {
			t.Errorf("bad zone: exit code %d, %s", code, stderr)
		}
	})
	t.Run("keys", func(t *testing.T) { testKeys(t, p) })
	t.Run("sites", func(t *testing.T) { testSites(t, p) })
	t.Run("doctor", func(t *testing.T) {
		stdout, stderr, _ := pagetally(t, "doctor", "--json", "--data="+p.data)
		var report struct {
			Checks []struct{ Check, Verdict, Seen string }
		}
		if err := json.Unmarshal([]byte(stdout), &report); err != nil || len(report.Checks) < 15 {
			t.Fatalf("%v in %s%s", err, stdout, stderr)
		}
		for _, c := range report.Checks {
			if c.Verdict != "ok" && !strings.Contains(c.Check, "disk") && c.Check != "data folder" { // those are the machine's
				t.Errorf("%s: %s %s", c.Check, c.Verdict, c.Seen)
			}
		}
	})
	t.Run("verify", func(t *testing.T) { testVerify(t, p) })
	t.Run("migrate", func(t *testing.T) {
		stdout, stderr, code := pagetally(t, "migrate", "--dry-run", "--data="+p.data)
		if code != 0 || !strings.Contains(stdout, "0 statements would run") {
			t.Errorf("exit code %d, %s%s", code, stdout, stderr)
		}
	})
	t.Run("clickhouse", func(t *testing.T) {
		_, stderr, code := pagetally(t, "clickhouse", "--data="+p.data)
		if code != 1 || !strings.Contains(stderr, "in use") {
			t.Errorf("beside a server: exit code %d, %s", code, stderr)
		}
	})
	t.Run("version", func(t *testing.T) {
		if stdout, _, code := pagetally(t, "version"); code != 0 || !strings.HasPrefix(stdout, "pagetally ") {
			t.Errorf("exit code %d, %s", code, stdout)
		}
	})
}

// testKeys makes a key, uses it, and takes it back. The forwarded header stands for a caller from elsewhere, who needs a key.
func testKeys(t *testing.T, p *process) {
	stdout, stderr, code := pagetally(t, "keys", "add", "--name=reader", "--scope=read", "--data="+p.data)
	secret, _, _ := strings.Cut(stdout, "\n")
	if code != 0 || !strings.HasPrefix(secret, "pt_") {
		t.Fatalf("add: exit code %d, %s%s", code, stdout, stderr)
	}
	if status := p.countAs(t, ""); status != http.StatusUnauthorized {
		t.Errorf("without a key: %d, want 401", status)
	}
	if status := p.countAs(t, secret); status != http.StatusOK {
		t.Errorf("with the key: %d, want 200", status)
	}
	stdout, _, _ = pagetally(t, "keys", "list", "--data="+p.data)
	if strings.Contains(stdout, secret) || !strings.Contains(stdout, `"reader"`) {
		t.Errorf("list: %s", stdout)
	}
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	id := strings.Fields(lines[len(lines)-1])[0]
	if _, stderr, code := pagetally(t, "keys", "revoke", id, "--data="+p.data); code != 0 {
		t.Errorf("revoke: exit code %d, %s", code, stderr)
	}
	if stdout, _, _ = pagetally(t, "keys", "list", "--data="+p.data); !strings.Contains(stdout, "revoked") {
		t.Errorf("list after revoke: %s", stdout)
	}
	if _, stderr, code := pagetally(t, "keys", "revoke", "nobody", "--data="+p.data); code != 1 || !strings.Contains(stderr, "no such key") {
		t.Errorf("revoke of nothing: exit code %d, %s", code, stderr)
	}
}

// countAs reads a count as a caller from elsewhere and returns the status.
func (p *process) countAs(t *testing.T, secret string) int {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, p.url+"/v1/count?site=example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Forwarded-For", "192.0.2.1")
	if secret != "" {
		request.Header.Set("Authorization", "Bearer "+secret)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}
