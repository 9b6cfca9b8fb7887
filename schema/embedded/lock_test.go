package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDirectoryLock(t *testing.T) {
	dir := t.TempDir()
	first, err := lockDirectory(t.Context(), dir, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.notePID(4242); err != nil {
		t.Fatal(err)
	}
	if _, err := lockDirectory(t.Context(), dir, time.Minute); !errors.Is(err, ErrDirectoryInUse) {
		t.Errorf("second owner: %v, want ErrDirectoryInUse at once", err)
	}

	// The owner dies, its child lives on: a second file on the same open lock, as a child has it.
	_ = first.owner.Close()
	if _, err := lockDirectory(t.Context(), dir, 120*time.Millisecond); !errors.Is(err, ErrDirectoryInUse) || !strings.Contains(err.Error(), "4242") {
		t.Errorf("while the child lives: %v, want ErrDirectoryInUse that names pid 4242", err)
	}
	go func() {
		<-time.After(150 * time.Millisecond)
		_ = first.engine.Close()
	}()
	second, err := lockDirectory(t.Context(), dir, 10*time.Second)
	if err != nil {
		t.Fatalf("after the child's end: %v", err)
	}
	second.release()
	for _, name := range []string{ownerLock, engineLock} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("lock file: %v", err)
		}
	}
}
