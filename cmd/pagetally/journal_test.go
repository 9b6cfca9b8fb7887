package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"github.com/pagetally/pagetally/aggregate"
	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
)

// quarantinedJournal makes a data folder whose journal holds one quarantined segment with a note.
func quarantinedJournal(t *testing.T) (s *Settings, id string) {
	t.Helper()
	s = &Settings{Data: t.TempDir()}
	j, err := journal.Open(journal.Options{Dir: s.path(journalDir), Format: schema.EventFormat})
	if err != nil {
		t.Fatal(err)
	}
	e := schema.Event{
		Site: "example.com", Name: schema.PageView, Hostname: "example.com", Path: "/a", PathKey: "/a", EventID: "e1",
		TS: 1_700_000_000_123, ReceivedAt: 1_700_000_000_500, N: 3, Scroll: schema.NoScroll, Props: []schema.Prop{{Key: "plan", Value: "pro"}},
	}
	segment := ulid.Make()
	frames := func(yield func([]byte, int) bool) { yield(e.AppendTo(nil), 1) }
	if _, err := j.Write(journal.StateQuarantined, journal.KindRetried, segment, frames); err != nil {
		t.Fatal(err)
	}
	note, err := json.Marshal(aggregate.Quarantine{Reasons: []string{"code 27: cannot parse", "code 27: cannot parse"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.WriteFile("decisions", segment.String()+".note", note); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return s, segment.String()
}

func runJournal(t *testing.T, s *Settings, args ...string) (string, string, int) {
	t.Helper()
	var out, errs bytes.Buffer
	code := execute(t.Context(), append([]string{"journal", "--data", s.Data}, args...), &out, &errs)
	return out.String(), errs.String(), code
}

func TestJournalCommands(t *testing.T) {
	s, id := quarantinedJournal(t)

	t.Run("list", func(t *testing.T) {
		out, stderr, code := runJournal(t, s, "list")
		if code != 0 || !strings.Contains(out, id) || !strings.Contains(out, "quarantine") || strings.Count(out, "code 27") != 1 {
			t.Errorf("exit code %d %s\n%s", code, stderr, out)
		}
	})
	t.Run("show", func(t *testing.T) {
		out, _, _ := runJournal(t, s, "show", id)
		var e schema.Event
		if err := json.Unmarshal([]byte(out), &e); err != nil || e.PathKey != "/a" || e.N != 3 {
			t.Errorf("%v in %s", err, out)
		}
	})
	t.Run("export", func(t *testing.T) {
		out, _, _ := runJournal(t, s, "export", id)
		var got exportedEvent
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		want := exportedEvent{
			ID: "e1", Site: "example.com", Name: "pageview", URL: "https://example.com/a", Props: map[string]string{"plan": "pro"}, N: 3,
			TS: "2023-11-14T22:13:20.123Z",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("retry", func(t *testing.T) {
		_, stderr, code := runJournal(t, s, "retry", id)
		if _, err := os.Stat(s.path(journalDir, "requests", id+".retry")); code != 0 || err != nil {
			t.Errorf("exit code %d %s, request: %v", code, stderr, err)
		}
	})
	t.Run("drop needs yes", func(t *testing.T) {
		path := s.path(journalDir, "requests", id+".drop")
		if _, stderr, code := runJournal(t, s, "drop", id); code != 1 || !strings.Contains(stderr, "--yes") {
			t.Errorf("exit code %d %s", code, stderr)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("request left without --yes")
		}
		if _, stderr, code := runJournal(t, s, "drop", "--yes", id); code != 0 {
			t.Errorf("exit code %d %s", code, stderr)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("no request: %v", err)
		}
	})
	t.Run("unknown segment", func(t *testing.T) {
		for _, id := range []string{ulid.Make().String(), "../../etc/passwd", ""} {
			if _, stderr, code := runJournal(t, s, "show", id); code == 0 || stderr == "" {
				t.Errorf("%q: exit code %d, %q", id, code, stderr)
			}
		}
	})
	t.Run("doctor", func(t *testing.T) {
		if f := checkJournal(s); f.Verdict != warn {
			t.Errorf("%+v", f)
		}
	})
}
