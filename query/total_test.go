package query

import (
	"testing"
	"time"
)

func TestTotal(t *testing.T) {
	s := newTables(t)
	hot, down, signup := view("2020-01-14T10:20:00Z", "/a"), view("2026-01-14T10:20:00Z", "/a"), view("2026-01-14T10:20:00Z", "/a")
	hot.N, down.N, signup.Name = 41, -2, "signup"
	s.insert(hot, signup)
	s.insert(down, view("2026-01-14T10:20:00Z", "/b"))
	oldest := s.now.Add(-time.Minute)
	s.store.cfg.InFlight = inFlight{asOf: oldest}
	for path, want := range map[string]int64{"/a": 39, "/b": 1, "/": 0} {
		if got, asOf, err := s.store.Total(t.Context(), s.site, path); got != want || !asOf.Equal(oldest) || err != nil {
			t.Errorf("%s: %d as of %s, %v, want %d as of %s", path, got, asOf, err, want, oldest)
		}
	}
}
