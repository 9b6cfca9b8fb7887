package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite generated text")

// printConfig runs `pagetally config` with args and returns what it printed and its exit code.
func printConfig(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = execute(context.Background(), append([]string{"config"}, args...), &out, &errs)
	return out.String(), errs.String(), code
}

func TestSettingsPrecedence(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pagetally.yaml")
	text := "journal-max: 1GiB\nzone: Europe/Berlin\nlog-level: debug\nsite: [a.example, b.example]\npprof: true\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PAGETALLY_CONFIG", file)
	t.Setenv("PAGETALLY_JOURNAL_MAX", "2GiB")
	t.Setenv("PAGETALLY_ZONE", "Asia/Kolkata")
	got, stderr, code := printConfig(t, "--journal-max=3GiB")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{
		"journal-max: 3GiB\n", "zone: Asia/Kolkata\n", "log-level: debug\n", "site:\n- a.example\n- b.example\n", "pprof: true\n", "stop-timeout: 10s\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("config lacks %q in\n%s", want, got)
		}
	}
}

func TestConfigReadsWhatItPrints(t *testing.T) {
	first, stderr, code := printConfig(t, "--site=a.example,b.example", "--journal-max=70MiB", "--engine-memory=1.5GiB",
		"--sites=[{domain: c.example, ignore-countries: [NO], address-limit: 0.5, keep-query: ['p[]', 'x,y'], week-start: sunday}]")
	if code != 0 {
		t.Fatal(stderr)
	}
	file := filepath.Join(t.TempDir(), "pagetally.yaml")
	if err := os.WriteFile(file, []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	second, stderr, code := printConfig(t, "--config", file)
	if code != 0 {
		t.Fatal(stderr)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("read back differs (-first +second):\n%s", diff)
	}
}

func TestConfigMasksPasswords(t *testing.T) {
	for _, flag := range []string{
		"--clickhouse=clickhouse://pagetally:s3cret@server.example:9000/pagetally",
		"--clickhouse=clickhouse://server.example:9000?username=pagetally&password=s3cret",
		"--redis=redis://pagetally:s3cret@server.example:6379/0",
		"--redis=rediss://:s3cret@server.example:26379?master_name=main",
	} {
		got, stderr, code := printConfig(t, flag)
		if code != 0 || strings.Contains(got+stderr, "s3cret") || !strings.Contains(got, "server.example") {
			t.Errorf("%s prints (%d):\n%s%s", flag, code, got, stderr)
		}
	}
}

func TestSettingsRefused(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"unknown flag", []string{"--jurnal-max=1GiB"}, "--jurnal-max"},
		{"no port", []string{"--listen=127.0.0.1"}, "--listen"},
		{"no Redis", []string{"--redis=localhost:6379"}, "--redis"},
		{"any site, open to all", []string{"--listen=:8080", "--site=*"}, "--site"},
		{"any site and one", []string{"--site=*,a.example"}, "--site"},
		{"site without a domain", []string{"--sites=[{zone: UTC}]"}, "--sites: site \"\": domain"},
		{"site in no zone", []string{"--sites=[{domain: a.example, zone: Mars/Olympus}]"}, "--sites: site \"a.example\": zone"},
		{"site twice", []string{"--sites=[{domain: a.example}, {domain: A.example}]"}, "--sites: site \"A.example\": domain"},
		{"unknown setting of a site", []string{"--sites=[{domain: a.example, hosst: [b.example]}]"}, "hosst"},
		{"site as a URL", []string{"--site=https://a.example"}, "--site"},
		{"no zone", []string{"--zone=Mars/Olympus"}, "--zone"},
		{"machine's zone", []string{"--zone=Local"}, "--zone"},
		{"no size", []string{"--journal-max=lots"}, "journal-max"},
		{"too small a journal", []string{"--journal-max=1MiB"}, "--journal-max"},
		{"too little memory", []string{"--engine-memory=10MiB"}, "--engine-memory"},
		{"slow seal", []string{"--journal-seal=2h"}, "--journal-seal"},
		{"no time to stop", []string{"--stop-timeout=0s"}, "--stop-timeout"},
		{"other database", []string{"--clickhouse=postgres://a:s3cret@b/c"}, "--clickhouse"},
		{"broken url", []string{"--clickhouse=clickhouse://a:s3cret@b:port/"}, "--clickhouse"},
		{"no network", []string{"--trusted-proxy=10.0.0.0/33"}, "--trusted-proxy"},
		{"log form", []string{"--log=xml"}, "--log"},
		{"missing file", []string{"--config=/nonexistent/pagetally.yaml"}, "pagetally.yaml"},
	}
	files, err := filepath.Glob("testdata/bad.*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no bad configuration files: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		tests = append(tests, struct {
			name string
			args []string
			want string
		}{filepath.Base(file), []string{"--config", file}, strings.TrimPrefix(first, "# want: ")})
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr, code := printConfig(t, tt.args...)
			if code != 2 || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, stderr %q, want 2 and %q", code, stderr, tt.want)
			}
			if strings.Contains(stdout+stderr, "s3cret") {
				t.Errorf("password printed: %s", stdout+stderr)
			}
		})
	}
}

func TestTrustsLoopback(t *testing.T) {
	tests := []struct {
		listen  string
		proxies []string
		want    bool
	}{
		{"127.0.0.1:8080", nil, true}, {"localhost:0", nil, true}, {"[::1]:8080", nil, true},
		{"127.0.0.1:8080", []string{"127.0.0.1"}, false}, {":8080", nil, false}, {"0.0.0.0:8080", nil, false}, {"192.0.2.1:8080", nil, false},
	}
	for _, tt := range tests {
		s := Settings{Listen: tt.listen, TrustedProxy: tt.proxies}
		if got := s.trustsLoopback(); got != tt.want {
			t.Errorf("%s behind %v: %t, want %t", tt.listen, tt.proxies, got, tt.want)
		}
	}
}

func TestUnknownEnv(t *testing.T) {
	got := unknownEnv([]string{"PAGETALLY_LISTEN=:1", "PAGETALLY_JURNAL_MAX=1", "PAGETALLY_PORT_80_TCP=x", "PAGETALLY_SERVICE_HOST=x", "PATH=x"})
	if diff := cmp.Diff([]string{"PAGETALLY_JURNAL_MAX"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestByteSize(t *testing.T) {
	tests := []struct {
		in   string
		want ByteSize
		out  string
	}{
		{"10GiB", 10 << 30, "10GiB"}, {"512m", 512 << 20, "512MiB"}, {"1.5GiB", 3 << 29, "1.5GiB"}, {"100", 100, "100B"},
	}
	for _, tt := range tests {
		var got ByteSize
		if err := got.UnmarshalText([]byte(tt.in)); err != nil || got != tt.want || got.String() != tt.out {
			t.Errorf("%s: got %d (%s), error %v, want %d (%s)", tt.in, int64(got), got, err, int64(tt.want), tt.out)
		}
	}
}

// TestReadmeSettings holds the README's table to the flags. Run with -update to rewrite the table.
func TestReadmeSettings(t *testing.T) {
	const path, begin, end = "../../README.md", "<!-- settings: begin -->\n", "<!-- settings: end -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no %q ... %q", path, begin, end)
	}
	want := settingsTable()
	if *update {
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("run go test -run TestReadmeSettings -update (-flags +README):\n%s", diff)
	}
}

func settingsTable() string {
	var b strings.Builder
	b.WriteString("| flag and key | environment | default | meaning |\n| --- | --- | --- | --- |\n")
	for _, flag := range settingFlags() {
		help := strings.ReplaceAll(flag.Help, "|", "\\|")
		fmt.Fprintf(&b, "| `--%s` | `%s` | %s | %s |\n", flag.Name, envName(flag.Name), code(defaultOf(flag)), help)
	}
	return b.String()
}

func defaultOf(flag settingFlag) string {
	if flag.IsBool() {
		return "false"
	}
	return flag.Default
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

// TestSitesOfTheFile reads settings of sites that YAML would like to take for something else.
func TestSitesOfTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pagetally.yaml")
	text := "listen: 0.0.0.0:8080\nzone: Europe/Berlin\nsites:\n- domain: a.example\n  ignore-countries: [NO, ON]\n  public: true\n- {domain: b.example, zone: Asia/Tokyo}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var c cli
	parser, err := newParser(&c, io.Discard, io.Discard, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"config", "--config", file}); err != nil {
		t.Fatal(err)
	}
	want := siteList{{Domain: "a.example", IgnoreCountries: []string{"NO", "ON"}, Public: true}, {Domain: "b.example", Zone: "Asia/Tokyo"}}
	if diff := cmp.Diff(want, c.Settings.Sites); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	sites, err := c.sites()
	if err != nil {
		t.Fatal(err)
	}
	a, _ := readSites{sites}.ReadSite("a.example")
	b, _ := readSites{sites}.ReadSite("B.example")
	if a.Zone.String() != "Europe/Berlin" || !a.Public || b.Zone.String() != "Asia/Tokyo" || b.Public {
		t.Errorf("reading sees %+v and %+v", a, b)
	}
	if _, ok := sites.Lookup("c.example"); ok {
		t.Error("with sites named, any other counts")
	}
}
