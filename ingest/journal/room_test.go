package journal_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pagetally/pagetally/ingest/journal"
)

// smallDisk is a file system that says how much room it has.
type smallDisk struct {
	journal.OSFS
	left, size atomic.Int64
	err        error
}

func (d *smallDisk) Room(string) (left, size int64, err error) {
	return d.left.Load(), d.size.Load(), d.err
}

func newSmallDisk(left, size int64) *smallDisk {
	d := &smallDisk{}
	d.left.Store(left)
	d.size.Store(size)
	return d
}

// TestKeepFree: a disk that is almost full takes no events and still takes what delivery needs to empty it.
func TestKeepFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newSmallDisk(1<<20, 1<<30)
		j := open(t, journal.Options{Dir: t.TempDir(), FS: disk, SealAge: time.Hour, KeepFree: 1000})
		mustAppend(t, j, "before", 1)
		disk.left.Store(1000)
		for range 3 {
			_, err := j.Append(t.Context(), []byte("meanwhile"), 1)
			if !errors.Is(err, journal.ErrFull) || journal.RetryAfter(err) <= 0 {
				t.Fatalf("Append on an almost full disk: %v", err)
			}
		}
		sealed, err := j.List(journal.StateSealed)
		if err != nil || len(sealed) != 1 || sealed[0].Rows != 1 {
			t.Fatalf("what was there is not handed to delivery: %+v, %v", sealed, err)
		}
		if err := j.WriteFile(journal.FolderDecisions, "a", []byte("decided")); err != nil {
			t.Errorf("delivery cannot write: %v", err)
		}
		if j.Err() == nil {
			t.Error("no error although nothing is taken")
		}
		disk.left.Store(1 << 20)
		time.Sleep(10 * time.Second)
		mustAppend(t, j, "after", 1)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestKeepFreeLimits(t *testing.T) {
	tests := []struct {
		name       string
		left, size int64
		keep       int64
		err        error
		want       error
	}{
		{"enough", 5000, 1 << 30, 4000, nil, nil},
		{"one frame too many", 4010, 1 << 30, 4000, nil, journal.ErrFull},
		{"a sixteenth of a small disk", 2000, 16_000, 4000, nil, nil},
		{"less than a sixteenth", 900, 16_000, 4000, nil, journal.ErrFull},
		{"nothing to keep", 0, 16_000, 0, nil, nil},
		{"a disk that does not say", 0, 0, 4000, errors.ErrUnsupported, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			disk := newSmallDisk(tt.left, tt.size)
			disk.err = tt.err
			j := open(t, journal.Options{Dir: t.TempDir(), FS: disk, KeepFree: tt.keep})
			if _, err := j.Append(t.Context(), []byte("0123456789"), 1); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}
