package chaos

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// What an outage may cost. The engine's memory is not in it.
const (
	// residentWaiting bounds the memory while the journal grows, residentDraining while the backlog is delivered: the INSERTs in
	// flight, each with the client's copies of a group, which the race detector makes larger still.
	residentWaiting  = 200 << 20
	residentDraining = 550 << 20
	// rowBytes is about what an event of the flood takes in the journal.
	rowBytes = 2000
)

// drainMost is how long a backlog may take to be delivered, on two slow cores and under the race detector.
func drainMost() time.Duration {
	if torture() {
		return 10 * time.Minute
	}
	return 4 * time.Minute
}

// floodRows is how many events are sent during an outage: too much to go unnoticed if it were held in memory.
func floodRows() int64 {
	if torture() {
		return 800_000
	}
	return 160_000
}

// TestChaosOutage holds the engine down under load: it stops answering, or dies as often as it is started.
func TestChaosOutage(t *testing.T) {
	for _, outage := range []struct {
		name string
		down func(t *testing.T, s *server) (up func())
	}{
		{"stopped", stopEngine},
		{"killed", holdKilled},
	} {
		t.Run(outage.name, func(t *testing.T) { testOutage(t, outage.down) })
	}
}

func outageLength() time.Duration {
	if torture() {
		return 5 * time.Minute
	}
	return 10 * time.Second
}

func testOutage(t *testing.T, down func(*testing.T, *server) (up func())) {
	s := newServer(t)
	r := newRecord()
	t.Cleanup(func() {
		if t.Failed() {
			s.report()
		}
	})
	s.start()
	eventually(t, time.Minute, "first start", s.ready)
	senders := launch(s, r, seed(), addKey(t, s))

	up := down(t, s)
	watch := watchMemory(s)
	end := time.Now().Add(outageLength())
	before := r.acknowledgements()
	flood(t, s, r, end)
	time.Sleep(time.Until(end))
	backlog := journalBytes(t, s)
	if want := floodRows() * rowBytes / 4; backlog < want {
		t.Errorf("the journal holds %d bytes at the end of the outage, want at least %d", backlog, want)
	}
	if _, refusals, _ := r.counts(); refusals > 0 {
		t.Errorf("%d requests were refused although the journal has room", refusals)
	}
	if n := r.acknowledgements() - before; n < 20*int(outageLength().Seconds()) {
		t.Errorf("only %d requests were acknowledged during the outage", n)
	}
	waiting := watch.peak.Load()
	began := time.Now()
	up()

	if err := senders.finish(time.Minute); err != nil {
		t.Fatal(err)
	}
	books := drain(t, s, drainMost())
	draining := watch.end()
	t.Logf("backlog of %d MB drained in %s; resident %d MB while it grew, %d MB at most; ledger %+v",
		backlog>>20, time.Since(began).Round(time.Millisecond), waiting>>20, draining>>20, books)
	if draining > residentDraining {
		t.Errorf("%d bytes resident while draining, want at most %d", draining, residentDraining)
	}
	if waiting > residentWaiting {
		t.Errorf("%d bytes resident while the journal grew to %d, want at most %d", waiting, backlog, residentWaiting)
	}
	verify(t, s, r, books)
	eventually(t, 30*time.Second, "empty journal", func() error {
		if left := journalBytes(t, s); left > backlog/100 {
			return fmt.Errorf("%d bytes in the journal", left)
		}
		return nil
	})
	s.stop()
}

// stopEngine keeps the engine from running, as a machine without memory or a hanging disk does, until up is called.
func stopEngine(t *testing.T, s *server) (up func()) {
	t.Helper()
	pid, ok := s.awaitEngine(20 * time.Second)
	if !ok {
		t.Fatal("no engine to stop")
	}
	_ = syscall.Kill(pid, syscall.SIGSTOP)
	return func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
}

// holdKilled kills the engine whenever it appears, until up is called.
func holdKilled(_ *testing.T, s *server) (up func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			for _, pid := range s.engines() {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// flood sends large events as fast as they are taken, until end or until there are enough.
func flood(t *testing.T, s *server, r *record, end time.Time) {
	t.Helper()
	var senders sync.WaitGroup
	const connections, each = 4, 500
	var left atomic.Int64
	left.Store(floodRows() / each)
	for i := range connections {
		senders.Go(func() {
			c := &client{name: fmt.Sprintf("flood%d", i), url: s.url, record: r, http: newConnection()}
			for left.Add(-1) >= 0 && time.Now().Before(end) {
				c.deliver(c.largeBatch(each))
			}
			c.http.CloseIdleConnections()
		})
	}
	senders.Wait()
}

// largeBatch is an array of events that take some 2 kB each in the journal.
func (c *client) largeBatch(n int) *request {
	r := &request{path: "/v1/events", headers: map[string]string{"Content-Type": "application/json", "User-Agent": agents[agentLabels[0]]}, items: n}
	items := make([]map[string]any, n)
	for i := range items {
		c.serial++
		e := event{id: fmt.Sprintf("%s-%d", c.name, c.serial), page: page{"pageview", "/flood/" + c.name}, who: agentLabels[0], n: 1}
		items[i] = map[string]any{
			"site": site, "path": e.page.path, "id": e.id,
			"props": map[string]string{"who": e.who, "id": e.id, "text": strings.Repeat(e.id+" ", 1800/(len(e.id)+1))},
		}
		r.events = append(r.events, e)
	}
	r.body = encode(items)
	return r
}

// journalBytes is what the journal's files take.
func journalBytes(t testing.TB, s *server) (total int64) {
	t.Helper()
	_ = filepath.WalkDir(filepath.Join(s.data, "journal"), func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil // removed while we look
		}
		if info, err := entry.Info(); err == nil {
			total += info.Size()
		}
		return nil
	})
	return total
}

// memoryWatch notes the most memory that a server's process holds.
type memoryWatch struct {
	peak atomic.Int64
	stop chan struct{}
	done chan struct{}
}

func watchMemory(s *server) *memoryWatch {
	w := &memoryWatch{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for {
			w.peak.Store(max(w.peak.Load(), s.residentBytes()))
			select {
			case <-w.stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return w
}

func (w *memoryWatch) end() int64 {
	close(w.stop)
	<-w.done
	return w.peak.Load()
}
