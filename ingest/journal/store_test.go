package journal_test

import (
	"errors"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pagetally/pagetally/ingest/journal"
)

// readAll returns the frames of all segments in a state, in order.
func readAll(t *testing.T, j *journal.Journal, state journal.State) (frames []journal.Frame) {
	t.Helper()
	infos, err := j.List(state)
	if err != nil {
		t.Fatal(err)
	}
	for _, info := range infos {
		seg, err := j.Read(state, info.ID)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(info, seg.Info); diff != "" {
			t.Errorf("List and Read differ: %s", diff)
		}
		for f := range seg.Frames {
			frames = append(frames, f)
		}
	}
	return frames
}

func frames(payloads ...string) iter.Seq2[[]byte, int] {
	return func(yield func([]byte, int) bool) {
		for i, p := range payloads {
			if !yield([]byte(p), i+1) {
				return
			}
		}
	}
}

func TestDiskLimit(t *testing.T) {
	dir := t.TempDir()
	j := open(t, journal.Options{Dir: dir, MaxBytes: 5000, SealAge: time.Hour})
	var err error
	n := 0
	for ; err == nil; n++ {
		_, err = j.Append(t.Context(), make([]byte, 500), 1)
		if n == 4 {
			_ = j.Seal(t.Context())
		}
	}
	if !errors.Is(err, journal.ErrFull) || journal.RetryAfter(err) <= 0 || n < 8 {
		t.Fatalf("append %d: %v", n, err)
	}
	if err := j.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := j.WriteFile(journal.FolderDecisions, "d", make([]byte, 700)); err != nil {
		t.Errorf("delivery is refused: %v", err)
	}
	infos, _ := j.List(journal.StateSealed)
	if err := j.Move(infos[0].ID, journal.StateSealed, journal.StateKept); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Append(t.Context(), []byte("x"), 1); !errors.Is(err, journal.ErrFull) {
		t.Errorf("kept segments do not count: %v", err)
	}
	if got, want := j.Stats().TotalBytes, sizeOf(t, dir); got != want {
		t.Errorf("TotalBytes %d, on disk %d", got, want)
	}
	if err := j.Remove(journal.StateKept, infos[0].ID); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, j, "x", 1)
	if got, want := j.Stats().TotalBytes, sizeOf(t, dir); got != want {
		t.Errorf("TotalBytes %d, on disk %d", got, want)
	}
}

// sizeOf sums what the limit counts: all but the lock and the node id.
func sizeOf(t *testing.T, dir string) (sum int64) {
	t.Helper()
	for _, path := range glob(t, filepath.Join(dir, "*", "*")) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		sum += info.Size()
	}
	return sum
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestWriteIsRepeatable(t *testing.T) {
	dir := t.TempDir()
	j := open(t, journal.Options{Dir: dir})
	id := j.NewID()
	write := func(s journal.State, payloads ...string) error {
		_, err := j.Write(s, journal.KindParked, id, frames(payloads...))
		return err
	}
	steps := []struct {
		name string
		do   func() error
		want error
	}{
		{"first", func() error { return write(journal.StateParked, "a", "b") }, nil},
		{"again", func() error { return write(journal.StateParked, "a", "b") }, nil},
		{"other frames", func() error { return write(journal.StateParked, "a", "c") }, journal.ErrExists},
		{"fewer frames", func() error { return write(journal.StateParked, "a") }, journal.ErrExists},
		{"other state", func() error { return write(journal.StateQuarantined, "a", "b") }, journal.ErrExists},
		{"no frames", func() error {
			_, err := j.Write(journal.StateParked, journal.KindParked, j.NewID(), frames())
			return err
		}, journal.ErrEmpty},
		{"open", func() error { return write(journal.StateOpen, "a") }, journal.ErrState},
		{"move", func() error { return j.Move(id, journal.StateParked, journal.StateSealed) }, nil},
		{"move again", func() error { return j.Move(id, journal.StateParked, journal.StateSealed) }, nil},
		{"move from nowhere", func() error { return j.Move(id, journal.StateKept, journal.StateParked) }, journal.ErrNotFound},
		{"move to open", func() error { return j.Move(id, journal.StateSealed, journal.StateOpen) }, journal.ErrState},
		{"remove", func() error { return j.Remove(journal.StateSealed, id) }, nil},
		{"remove again", func() error { return j.Remove(journal.StateSealed, id) }, nil},
		{"read", func() error { _, err := j.Read(journal.StateSealed, id); return err }, journal.ErrNotFound},
	}
	for _, step := range steps {
		if err := step.do(); !errors.Is(err, step.want) {
			t.Errorf("%s: %v, want %v", step.name, err, step.want)
		}
	}
	if left := glob(t, filepath.Join(dir, "*", "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestFiles(t *testing.T) {
	opts := journal.Options{Dir: t.TempDir()}
	j := open(t, opts)
	for _, name := range []string{"", ".hidden", "a/b", "../a", "a.tmp"} {
		if err := j.WriteFile(journal.FolderDecisions, name, nil); err == nil {
			t.Errorf("WriteFile(%q) is allowed", name)
		}
	}
	if err := j.WriteFile("sealed", "a", nil); err == nil {
		t.Error("WriteFile into sealed/ is allowed")
	}
	for _, content := range []string{"one", "three"} {
		if err := j.WriteFile(journal.FolderDecisions, "b", []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.WriteFile(journal.FolderDecisions, "a", nil); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open(t, opts)
	names, err := j.ListFiles(journal.FolderDecisions)
	if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if b, err := j.ReadFile(journal.FolderDecisions, "b"); err != nil || string(b) != "three" {
		t.Errorf("ReadFile = %q, %v", b, err)
	}
	for range 2 {
		if err := j.RemoveFile(journal.FolderDecisions, "b"); err != nil {
			t.Error(err)
		}
	}
	if _, err := j.ReadFile(journal.FolderDecisions, "b"); !errors.Is(err, journal.ErrNoFile) {
		t.Errorf("removed file: %v", err)
	}
}
