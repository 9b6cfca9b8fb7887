package journal

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
)

// dirLock keeps a second process out. It is flock, which the kernel drops with the process, so a stale lock does not
// exist; the pid in the file is there for the error message alone.
type dirLock struct{ lock *flock.Flock }

func lockDir(dir string) (*dirLock, error) {
	path := filepath.Join(dir, "lock")
	lock := flock.New(path, flock.SetPermissions(fileMode))
	held, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock journal: %w", err)
	}
	if !held {
		return nil, fmt.Errorf("%w: %s%s", ErrLocked, dir, holder(path))
	}
	_ = os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), fileMode) // the lock holds without it
	return &dirLock{lock}, nil
}

func holder(path string) string {
	b, err := os.ReadFile(path)
	if pid := strings.TrimSpace(string(b)); err == nil && pid != "" {
		return " by process " + pid
	}
	return ""
}

// release leaves the file: removing it would let two processes lock two files of the same name.
func (l *dirLock) release() error { return l.lock.Close() }
