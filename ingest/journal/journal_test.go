package journal_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pagetally/pagetally/ingest/journal"
)

func TestAppendReadBack(t *testing.T) {
	j := open(t, journal.Options{Dir: t.TempDir()})
	want := []journal.Frame{{0, 1, "a"}, {1, 3, "bcd"}, {4, 1, "e"}}
	for _, f := range want {
		pos, err := j.Append(t.Context(), []byte(f.Payload), f.Rows)
		if err != nil || pos.Index != f.Index {
			t.Fatalf("Append = %v, %v, want index %d", pos, err, f.Index)
		}
	}
	if err := j.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	infos, _ := j.List(journal.StateSealed)
	if len(infos) != 1 || infos[0].Rows != 5 || infos[0].Frames != 3 {
		t.Fatalf("List = %+v", infos)
	}
	seg, err := j.Read(journal.StateSealed, infos[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	var got []journal.Frame
	for f := range seg.Frames {
		got = append(got, f)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
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
