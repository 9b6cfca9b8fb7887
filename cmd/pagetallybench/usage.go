//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// usage is what a process took.
type usage struct {
	CPU     time.Duration // of user and system, all threads
	PeakRSS int64         // bytes, the most that was seen
}

// watcher looks at a process from time to time: the kernel's own high-water mark cannot be set back.
type watcher struct {
	pid    int
	before time.Duration
	peak   int64
	stop   chan struct{}
	done   sync.WaitGroup
}

const watchInterval = 200 * time.Millisecond

// watch begins to look at a process.
func watch(pid int) *watcher {
	w := &watcher{pid: pid, before: cpuTime(pid), stop: make(chan struct{})}
	w.done.Go(func() {
		tick := time.NewTicker(watchInterval)
		defer tick.Stop()
		for {
			w.peak = max(w.peak, residentBytes(pid))
			select {
			case <-tick.C:
			case <-w.stop:
				return
			}
		}
	})
	return w
}

// end says what the process took since watch. A process that is gone took nothing that can be seen.
func (w *watcher) end() usage {
	close(w.stop)
	w.done.Wait()
	return usage{CPU: max(cpuTime(w.pid)-w.before, 0), PeakRSS: w.peak}
}

// residentBytes is a process's VmRSS.
func residentBytes(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(status, []byte("VmRSS:"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseInt(string(fields[0]), 10, 64)
	return kib << 10
}

// clockTick is the kernel's unit of CPU time for user space, on every architecture that Go runs on.
const clockTick = time.Second / 100

func cpuTime(pid int) time.Duration {
	fields := statFields(pid)
	const utime, stime = 11, 12 // counted from the field behind the name
	if len(fields) <= stime {
		return 0
	}
	user, _ := strconv.ParseInt(string(fields[utime]), 10, 64)
	system, _ := strconv.ParseInt(string(fields[stime]), 10, 64)
	return time.Duration(user+system) * clockTick
}

// statFields are the fields of /proc/PID/stat behind the name, which may hold spaces.
func statFields(pid int) [][]byte {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	return bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
}

// childOf finds the only child process of pid; 0 when there is none.
func childOf(pid int) int {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		child, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if fields := statFields(child); len(fields) > 1 && string(fields[1]) == strconv.Itoa(pid) {
			return child
		}
	}
	return 0
}
