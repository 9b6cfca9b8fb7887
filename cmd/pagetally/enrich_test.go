package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
)

// writeGeo makes a geo database that knows one network, built at a time.
func writeGeo(t *testing.T, country string, built time.Time) string {
	t.Helper()
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "Countries", BuildEpoch: built.Unix()})
	if err != nil {
		t.Fatal(err)
	}
	_, network, err := net.ParseCIDR("81.2.69.0/24")
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Insert(network, mmdbtype.Map{"country_code": mmdbtype.String(country)}); err != nil {
		t.Fatal(err)
	}
	var content bytes.Buffer
	if _, err := tree.WriteTo(&content); err != nil {
		t.Fatal(err)
	}
	return writeText(t, "geo.mmdb", content.String())
}

func writeText(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestExplainedPlaceAndSpam shows by a command that both files are read and reach the events.
func TestExplainedPlaceAndSpam(t *testing.T) {
	database := writeGeo(t, "GB", time.Now())
	spam := writeText(t, "spam.txt", "spam.example\n")
	explained := func(args ...string) (string, int) {
		var out, errs bytes.Buffer
		args = append([]string{"explain", "--data", t.TempDir(), "--site", "example.com", "--peer", "81.2.69.142"}, args...)
		code := execute(context.Background(), args, &out, &errs)
		return out.String() + errs.String(), code
	}
	body := writeText(t, "body.json", `{"n":"pageview","u":"https://example.com/","d":"example.com","r":"https://www.spam.example/"}`)
	tests := []struct {
		name       string
		args       []string
		want, lack string
		code       int
	}{
		{"place", []string{"--geo", database, "https://example.com/"}, "GB", "", 0},
		{"no database", []string{"https://example.com/"}, "pageview", "GB", 0},
		{"spam", []string{"--spam-list", spam, body}, "spam_referrer", "", 0},
		{"no list", []string{body}, "pageview", "spam_referrer", 0},
		{"no such database", []string{"--geo", database + "x", "https://example.com/"}, "--geo", "", 1},
		{"no list of hosts", []string{"--spam-list", body, "https://example.com/"}, "--spam-list", "", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, code := explained(tt.args...)
			if code != tt.code || !strings.Contains(got, tt.want) || tt.lack != "" && strings.Contains(got, tt.lack) {
				t.Errorf("exit code %d, want %d, with %q and without %q:\n%s", code, tt.code, tt.want, tt.lack, got)
			}
		})
	}
}

func TestDoctorOnGeo(t *testing.T) {
	now := time.Now()
	tests := []struct {
		name, path string
		want       verdict
		seen       string
	}{
		{"none", "", ok, "unknown"},
		{"new", writeGeo(t, "GB", now), ok, "Countries"},
		{"old", writeGeo(t, "GB", now.AddDate(-2, 0, 0)), warn, "Countries"},
		{"broken", writeText(t, "geo.mmdb", "no"), fail, "no MMDB database"},
	}
	for _, tt := range tests {
		f := checkGeo(&Settings{Geo: tt.path}, now)
		if f.Verdict != tt.want || !strings.Contains(f.Seen, tt.seen) || (f.Verdict == ok) != (f.Advice == "") {
			t.Errorf("%s: %s %q, advice %q", tt.name, f.Verdict, f.Seen, f.Advice)
		}
	}
}
