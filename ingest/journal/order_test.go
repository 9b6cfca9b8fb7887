package journal_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/ingest/journal/journaltest"
)

// What makes an answer durable is the order of the file calls before it; a run that survives does not show it.
func TestOrderOfFileCalls(t *testing.T) {
	fsys := journaltest.New(nil)
	dir := t.TempDir()
	j := open(t, journal.Options{Dir: dir, FS: fsys, SealAge: time.Hour})
	id := j.NewID()
	steps := []struct {
		name string
		do   func() error
		want []string
	}{
		{"first append", func() error { return appendOne(t, j) }, []string{"create open", "write open", "write open", "sync open", "sync folder open"}},
		{"second append", func() error { return appendOne(t, j) }, []string{"write open", "sync open"}},
		{"seal", func() error { return j.Seal(t.Context()) }, []string{"write open", "sync open", "close open", "rename sealed", "sync folder sealed", "sync folder open"}},
		{"write", func() error {
			_, err := j.Write(journal.StateParked, journal.KindParked, id, frames("x"))
			return err
		}, []string{"create parked", "write parked", "sync parked", "close parked", "rename parked", "sync folder parked"}},
		{"move", func() error { return j.Move(id, journal.StateParked, journal.StateKept) }, []string{"rename kept", "sync folder kept", "sync folder parked"}},
		{"remove", func() error { return j.Remove(journal.StateKept, id) }, []string{"remove kept", "sync folder kept"}},
		{"write file", func() error { return j.WriteFile(journal.FolderDecisions, "d", []byte("d")) },
			[]string{"create decisions", "write decisions", "sync decisions", "close decisions", "rename decisions", "sync folder decisions"}},
		{"remove file", func() error { return j.RemoveFile(journal.FolderDecisions, "d") }, []string{"remove decisions", "sync folder decisions"}},
	}
	for _, step := range steps {
		from := len(fsys.Calls())
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		var got []string
		for _, call := range fsys.Calls()[from:] {
			folder := call.Path
			if call.Op != journaltest.SyncDir {
				folder = filepath.Dir(folder)
			}
			got = append(got, string(call.Op)+" "+filepath.Base(folder))
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: %s", step.name, diff)
		}
	}
}

func appendOne(t *testing.T, j *journal.Journal) error {
	_, err := j.Append(t.Context(), []byte("x"), 1)
	return err
}
