package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Two locks guard a directory. ownerLock is held by the process that runs Run: whoever finds it taken is the second
// and gives up at once. engineLock is held by that process and by its child through one inherited open file, so it is
// free only when both are gone: whoever finds it taken while owning the directory waits for an engine whose parent died.
const (
	ownerLock  = "owner.lock"
	engineLock = "engine.lock" // holds the child's pid as text

	takeoverPoll = 50 * time.Millisecond
)

type directoryLock struct {
	owner, engine *os.File
}

// lockDirectory takes both locks or fails with ErrDirectoryInUse.
func lockDirectory(ctx context.Context, dir string, wait time.Duration) (*directoryLock, error) {
	owner, err := tryLock(filepath.Join(dir, ownerLock))
	if err != nil {
		return nil, fmt.Errorf("%w: another pagetally runs on %s", err, dir)
	}
	engine, err := waitLock(ctx, filepath.Join(dir, engineLock), wait)
	if err != nil {
		pid, _ := os.ReadFile(filepath.Join(dir, engineLock))
		_ = owner.Close()
		return nil, fmt.Errorf("%w: the previous engine on %s (pid %s) has not ended; end it if it hangs",
			err, dir, strings.TrimSpace(string(pid)))
	}
	return &directoryLock{owner: owner, engine: engine}, nil
}

func waitLock(ctx context.Context, path string, wait time.Duration) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		file, err := tryLock(path)
		if !errors.Is(err, ErrDirectoryInUse) {
			return file, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(takeoverPoll):
		}
	}
}

func tryLock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, secretMode)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrDirectoryInUse
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// notePID leaves the child's pid for the message of whoever has to wait for it.
func (l *directoryLock) notePID(pid int) error {
	if err := l.engine.Truncate(0); err != nil {
		return fmt.Errorf("note engine pid: %w", err)
	}
	if _, err := l.engine.WriteAt(fmt.Appendf(nil, "%d\n", pid), 0); err != nil {
		return fmt.Errorf("note engine pid: %w", err)
	}
	return nil
}

// release gives the directory up. The files stay: removing a lock file races with whoever opens it.
func (l *directoryLock) release() {
	_ = l.engine.Close()
	_ = l.owner.Close()
}
