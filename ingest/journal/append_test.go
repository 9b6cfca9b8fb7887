package journal_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/ingest/journal/journaltest"
)

func mustAppend(t *testing.T, j *journal.Journal, payload string, rows int) journal.Position {
	t.Helper()
	pos, err := j.Append(t.Context(), []byte(payload), rows)
	if err != nil {
		t.Fatal(err)
	}
	return pos
}

func TestAppendReadBack(t *testing.T) {
	dir := t.TempDir()
	j := open(t, journal.Options{Dir: dir, Node: "node-1", Format: 7, SealAge: time.Hour})
	want := []journal.Frame{{Index: 0, Rows: 1, Payload: "a"}, {Index: 1, Rows: 3, Payload: "bcd"}, {Index: 4, Rows: 1, Payload: "e"}}
	var pos journal.Position
	for _, f := range want {
		if pos = mustAppend(t, j, f.Payload, f.Rows); pos.Index != f.Index {
			t.Fatalf("index %d, want %d", pos.Index, f.Index)
		}
	}
	if !j.Contains(pos.Segment) || j.Contains(j.NewID()) {
		t.Error("Contains is wrong about the open segment")
	}
	if opened, err := journal.List(dir, journal.StateOpen); err != nil || len(opened) != 1 || opened[0].Rows != 5 {
		t.Errorf("listed from outside: %+v, %v", opened, err)
	}
	if err := j.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-j.Sealed():
	default:
		t.Error("no notification")
	}
	if diff := cmp.Diff(want, readAll(t, j, journal.StateSealed)); diff != "" {
		t.Error(diff)
	}
	infos, _ := j.List(journal.StateSealed)
	got := infos[0]
	if got.ID != pos.Segment || got.Kind != journal.KindLive || got.Format != 7 || got.Node != "node-1" || got.Rows != 5 || got.Frames != 3 {
		t.Errorf("info %+v", got)
	}
	outside, err := journal.List(dir, journal.StateSealed)
	if diff := cmp.Diff(infos, outside); diff != "" || err != nil {
		t.Error(diff, err)
	}
	seg, err := journal.ReadSegmentFile(filepath.Join(dir, "sealed", got.ID.String()+".seg"))
	if err != nil || seg.Rows != 5 {
		t.Errorf("ReadSegmentFile = %+v, %v", seg, err)
	}
}

func TestSealLimits(t *testing.T) {
	tests := []struct {
		name    string
		opts    journal.Options
		rows    []int
		payload int
		want    []int // rows of the segments
	}{
		{"rows reached", journal.Options{SealRows: 3}, []int{1, 1, 1, 1}, 1, []int{3, 1}},
		{"rows not exceeded", journal.Options{SealRows: 3}, []int{2, 2, 2}, 1, []int{2, 2, 2}},
		{"one payload over rows", journal.Options{SealRows: 3}, []int{1, 9, 1}, 1, []int{1, 9, 1}},
		{"bytes reached", journal.Options{SealBytes: 200}, []int{1, 1, 1}, 88, []int{2, 1}},
		{"bytes not exceeded", journal.Options{SealBytes: 150}, []int{1, 1}, 88, []int{1, 1}},
		{"one payload over bytes", journal.Options{SealBytes: 50}, []int{1, 1}, 88, []int{1, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.opts.Dir, tt.opts.SealAge = t.TempDir(), time.Hour
			j := open(t, tt.opts)
			for _, rows := range tt.rows {
				mustAppend(t, j, strings.Repeat("x", tt.payload), rows)
			}
			if err := j.Seal(t.Context()); err != nil {
				t.Fatal(err)
			}
			var got []int
			infos, _ := j.List(journal.StateSealed)
			for _, info := range infos {
				got = append(got, info.Rows)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSealAge(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		j := open(t, journal.Options{Dir: dir, SealAge: time.Second})
		time.Sleep(5 * time.Second) // an idle journal makes no segments
		start := time.Now().Truncate(time.Millisecond)
		mustAppend(t, j, "a", 1)
		time.Sleep(600 * time.Millisecond)
		mustAppend(t, j, "b", 1) // does not make the segment younger
		if got := j.OldestOpen(); !got.Equal(start) {
			t.Errorf("OldestOpen %v, want %v", got, start)
		}
		time.Sleep(399 * time.Millisecond)
		synctest.Wait()
		if got := j.Stats(); got.OpenRows != 2 || got.SealedSegments != 0 {
			t.Errorf("before the age: %+v", got)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		got := j.Stats()
		if got.OpenRows != 0 || got.SealedSegments != 1 || !got.Oldest.Equal(start) || !j.OldestOpen().IsZero() {
			t.Errorf("after the age: %+v", got)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A disk that hangs holds appends until their context ends; what does not fit beside the hanging group is refused.
func TestHangingDisk(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		fsys := journaltest.New(nil)
		release := make(chan struct{})
		j := open(t, journal.Options{Dir: dir, FS: fsys, MaxPending: 1000, PendingWait: time.Second, SealAge: time.Hour})
		fsys.Before(func(c journaltest.Call) error {
			if c.Op == journaltest.Datasync {
				<-release
			}
			return nil
		})
		var wg sync.WaitGroup
		wg.Go(func() { mustAppend(t, j, strings.Repeat("x", 600), 1) })
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := j.Append(ctx, make([]byte, 100), 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("append beside a hanging disk: %v", err)
		}
		start := time.Now()
		_, err := j.Append(t.Context(), make([]byte, 600), 1)
		if !errors.Is(err, journal.ErrFull) || time.Since(start) != time.Second || journal.RetryAfter(err) <= 0 {
			t.Errorf("append over MaxPending after %v: %v", time.Since(start), err)
		}
		wg.Go(func() { mustAppend(t, j, strings.Repeat("y", 800), 1) })
		synctest.Wait()
		close(release)
		wg.Wait()
		if got := j.Stats().OpenRows; got != 3 { // with the one whose context ended
			t.Errorf("%d rows", got)
		}
		_ = j.Close()
	})
}

func TestRefusals(t *testing.T) {
	j := open(t, journal.Options{Dir: t.TempDir(), MaxPending: 1000})
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	tests := []struct {
		name    string
		ctx     context.Context
		payload []byte
		rows    int
		want    error
	}{
		{"empty", t.Context(), nil, 1, journal.ErrEmpty},
		{"no rows", t.Context(), []byte("x"), 0, journal.ErrEmpty},
		{"large", t.Context(), make([]byte, 1001), 1, journal.ErrTooLarge},
		{"many rows", t.Context(), []byte("x"), journal.MaxRows + 1, journal.ErrTooLarge},
		{"cancelled", cancelled, []byte("x"), 1, context.Canceled},
	}
	for _, tt := range tests {
		if _, err := j.Append(tt.ctx, tt.payload, tt.rows); !errors.Is(err, tt.want) || journal.RetryAfter(err) != 0 {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append(t.Context(), []byte("x"), 1); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := j.Seal(t.Context()); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Seal after Close: %v", err)
	}
	if _, err := j.Write(journal.StateParked, journal.KindParked, j.NewID(), frames("x")); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Write after Close: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestConcurrentUse(t *testing.T) {
	opts := journal.Options{Dir: t.TempDir(), SealAge: 3 * time.Millisecond, SealRows: 50}
	j := open(t, opts)
	const appenders, each = 16, 100
	var work, watch sync.WaitGroup
	var positions sync.Map
	for a := range appenders {
		work.Go(func() {
			payload := make([]byte, 0, 64)
			for i := range each {
				payload = fmt.Appendf(payload[:0], "%d/%d", a, i) // reused at once: Append must have copied
				pos, err := j.Append(t.Context(), payload, 1+i%3)
				if err != nil {
					t.Error(err)
				}
				positions.Store(string(payload), pos)
			}
		})
	}
	done := make(chan struct{})
	watch.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-j.Sealed():
			}
			infos, _ := j.List(journal.StateSealed)
			for _, info := range infos {
				if err := j.Move(info.ID, journal.StateSealed, journal.StateKept); err != nil {
					t.Error(err)
				}
			}
			_ = j.Seal(t.Context())
			j.Stats()
		}
	})
	work.Wait()
	close(done)
	watch.Wait()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open(t, opts)
	seen := map[string]int{}
	for _, s := range []journal.State{journal.StateKept, journal.StateSealed} {
		infos, _ := j.List(s)
		for _, info := range infos {
			seg, err := j.Read(s, info.ID)
			if err != nil {
				t.Fatal(err)
			}
			for f := range seg.Frames {
				seen[f.Payload]++
				if pos, _ := positions.Load(f.Payload); pos != (journal.Position{Segment: info.ID, Index: f.Index}) {
					t.Errorf("%s lies at %d of %s, Append said %v", f.Payload, f.Index, info.ID, pos)
				}
			}
		}
	}
	for a := range appenders {
		for i := range each {
			if n := seen[fmt.Sprintf("%d/%d", a, i)]; n != 1 {
				t.Errorf("%d/%d is there %d times", a, i, n)
			}
		}
	}
	if len(seen) != appenders*each {
		t.Errorf("%d payloads", len(seen))
	}
}
