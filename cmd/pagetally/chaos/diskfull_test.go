package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// diskSize is the room of the journal's disk: less than the journal would use, so that it is the disk that says no.
const diskSize = 24 << 20

// TestChaosDiskFull fills the journal's disk while the engine is down: the journal itself as far as it may, then a file of somebody
// else's until not one byte is left, and once more before a kill.
func TestChaosDiskFull(t *testing.T) {
	s := newServer(t)
	dir := filepath.Join(s.data, "journal")
	mountSmallDisk(t, dir)
	r := newRecord()
	t.Cleanup(func() {
		if t.Failed() {
			s.report()
		}
	})
	s.start()
	eventually(t, time.Minute, "first start", s.ready)
	resume := stopEngine(t, s)
	t.Cleanup(resume)
	c := &client{name: "filler", url: s.url, record: r, http: newConnection()}

	first := fill(t, c)
	hog := hogDisk(t, dir)
	if outcome, detail := c.try(first); outcome != refused {
		t.Errorf("full disk: outcome %v, want a refusal: %s", outcome, detail)
	}
	if s.ready() == nil {
		t.Error("ready although no event can be stored")
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", s.process())); err != nil {
		t.Fatal("the server has ended")
	}
	if err := os.Remove(hog); err != nil {
		t.Fatal(err)
	}
	resume() // delivery makes the room
	eventually(t, time.Minute, "service", func() error {
		if outcome, detail := c.try(first); outcome != acknowledged {
			return fmt.Errorf("outcome %v: %s", outcome, detail)
		}
		return nil
	})
	r.acknowledge(first.events)
	verify(t, s, r, drain(t, s, time.Minute))

	killOnFullDisk(t, s, r, c)
	s.stop()
}

// killOnFullDisk fills the disk again and kills the server on it: a start must find its way out alone.
func killOnFullDisk(t *testing.T, s *server, r *record, c *client) {
	resume := stopEngine(t, s)
	defer resume()
	first := fill(t, c)
	s.kill()
	s.start()
	eventually(t, time.Minute, "service after a kill", func() error {
		if outcome, detail := c.try(first); outcome != acknowledged {
			return fmt.Errorf("outcome %v: %s", outcome, detail)
		}
		return nil
	})
	r.acknowledge(first.events)
	verify(t, s, r, drain(t, s, time.Minute))
}

// fill sends until the server refuses and returns what was refused.
func fill(t *testing.T, c *client) *request {
	t.Helper()
	for range diskSize / (100 * 1000) * 4 {
		batch := c.largeBatch(100)
		switch outcome, detail := c.try(batch); outcome {
		case acknowledged:
			c.record.acknowledge(batch.events)
		case refused:
			return batch
		default:
			t.Fatalf("outcome %v: %s", outcome, detail)
		}
	}
	t.Fatal("the disk does not fill up")
	return nil
}

// hogDisk takes what is left of the disk.
func hogDisk(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "hog")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for block := make([]byte, 4096); ; {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			return path
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// mountSmallDisk makes dir a disk of its own.
func mountSmallDisk(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small disk needs root")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0700", diskSize)); err != nil {
		t.Skipf("a small disk cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
}
