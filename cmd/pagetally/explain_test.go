package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExplainWithoutServer(t *testing.T) {
	body := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(body, []byte(`{"site":"example.com","path":"/job"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := body + "-broken"
	if err := os.WriteFile(broken, []byte(`{"n":`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{"a view", []string{"https://www.example.com/a/?utm_source=mail"}, 0, []string{"verdict   counts", `path            "/a"`, "203.0.113.1: the peer"}},
		{"a bot", []string{"https://example.com/a", "-H", "User-Agent: curl/8.0"}, 0, []string{"does not count: bot", "none would be stored"}},
		{"another site", []string{"https://other.example/", "--domain=example.com"}, 0, []string{"does not count: foreign_host"}},
		{"behind a proxy", []string{"https://example.com/", "--peer=10.0.0.1", "--trusted-proxy=10.0.0.0/8", "-H", "X-Forwarded-For: 192.0.2.9, 10.0.0.7"}, 0, []string{"client    192.0.2.9: the last valid address"}},
		{"a body", []string{body}, 0, []string{"POST /v1/events", `path            "/job"`}},
		{"a broken body", []string{broken}, 0, []string{"reply     400", "Unable to parse"}},
		{"as JSON", []string{"https://example.com/", "--json"}, 0, []string{`"stored": false`}},
		{"no such file", []string{"/nowhere/body"}, 1, nil},
		{"no such endpoint", []string{"https://example.com/", "--endpoint=GET /metrics"}, 1, nil},
		{"no header", []string{"https://example.com/", "-H", "User-Agent"}, 1, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "data")
			var out, errs bytes.Buffer
			code := execute(t.Context(), append([]string{"explain", "--data=" + data, "--site=example.com"}, tt.args...), &out, &errs)
			if code != tt.code || (code != 0) != (errs.Len() > 0) {
				t.Errorf("exit code %d, want %d: %s", code, tt.code, errs.String())
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not in:\n%s", want, out.String())
				}
			}
			if _, err := os.Stat(data); err == nil {
				t.Error("explaining made a data folder")
			}
		})
	}
}

// testExplain asks a running server, which stores nothing of it.
func testExplain(t *testing.T, p *process) {
	stdout, stderr, code := pagetally(t, "explain", "https://example.com/explained", "--server="+p.url, "--peer=127.0.0.1")
	if code != 0 || !strings.Contains(stdout, "verdict   counts") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	var count struct{ Views int64 }
	if _, body := p.get("/v1/count?site=example.com&path=/explained", &count); count.Views != 0 {
		t.Errorf("an explained view is counted: %s", body)
	}
	_, stderr, code = pagetally(t, "explain", "https://example.com/", "--server="+p.url, "--key=pt_"+strings.Repeat("x", 32))
	if code != 1 || !strings.Contains(stderr, "401") {
		t.Errorf("with an unknown key: exit code %d, %s", code, stderr)
	}
}
