package journal_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/pagetally/pagetally/ingest/journal"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		beVictim(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, opts journal.Options) *journal.Journal {
	t.Helper()
	j, err := journal.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func TestLockAndNode(t *testing.T) {
	dir := t.TempDir()
	j := open(t, journal.Options{Dir: dir})
	node := j.Node()
	_, err := journal.Open(journal.Options{Dir: dir})
	if !errors.Is(err, journal.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("second Open: %v", err)
	}
	_ = j.Close()
	if _, err := journal.Open(journal.Options{Dir: dir, Node: "other"}); !errors.Is(err, journal.ErrNode) {
		t.Errorf("Open as another node: %v", err)
	}
	registry := prometheus.NewRegistry()
	for range 2 { // metrics and lock are given back
		j, err := journal.Open(journal.Options{Dir: dir, Metrics: registry})
		if err != nil {
			t.Fatal(err)
		}
		if j.Node() != node || node == "" {
			t.Errorf("node %q, was %q", j.Node(), node)
		}
		mustAppend(t, j, "x", 1)
		families, err := registry.Gather()
		if err != nil || len(families) < 10 {
			t.Errorf("%d metric families, %v", len(families), err)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Ids rise above every id in the directory, even when the clock was ahead when that was made.
func TestIDsRiseOverRestarts(t *testing.T) {
	opts := journal.Options{Dir: t.TempDir()}
	j := open(t, opts)
	var ahead ulid.ULID
	_ = ahead.SetTime(ulid.Timestamp(time.Now().Add(time.Hour)))
	if _, err := j.Write(journal.StateKept, journal.KindParked, ahead, frames("x")); err != nil {
		t.Fatal(err)
	}
	_ = j.Close()
	j = open(t, opts)
	if id := j.NewID(); id.Compare(ahead) <= 0 {
		t.Errorf("new id %s, existing %s", id, ahead)
	}
	if pos := mustAppend(t, j, "x", 1); pos.Segment.Compare(ahead) <= 0 {
		t.Errorf("new segment %s, existing %s", pos.Segment, ahead)
	}
}
