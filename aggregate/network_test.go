package aggregate

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// wire is a proxy in front of the engine that can cut connections at a chosen byte, or swallow the server's answers.
type wire struct {
	t        *testing.T
	listener net.Listener
	target   atomic.Value // string
	// cutAfter is how many more bytes go to the server before every connection is cut; negative is never.
	cutAfter atomic.Int64
	// deaf drops what the server says, so that the client runs into its time-out.
	deaf  atomic.Bool
	cuts  atomic.Int64
	mu    sync.Mutex
	conns map[net.Conn]bool
	wg    sync.WaitGroup
}

func newWire(t *testing.T, target string) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, listener: listener, conns: map[net.Conn]bool{}}
	w.target.Store(target)
	w.cutAfter.Store(-1)
	w.wg.Go(w.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		w.cut()
		w.wg.Wait()
	})
	return w
}

func (w *wire) accept() {
	for {
		client, err := w.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", w.target.Load().(string))
		if err != nil {
			_ = client.Close()
			continue
		}
		w.mu.Lock()
		w.conns[client], w.conns[server] = true, true
		w.mu.Unlock()
		w.wg.Go(func() { w.pass(server, client, w.toServer) })
		w.wg.Go(func() { w.pass(client, server, w.toClient) })
	}
}

func (w *wire) pass(to, from net.Conn, write func(net.Conn, []byte) error) {
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && write(to, buffer[:n]) != nil || err != nil {
			break
		}
	}
	_ = to.Close()
	_ = from.Close()
}

func (w *wire) toServer(server net.Conn, data []byte) error {
	if left := w.cutAfter.Load(); left >= 0 {
		if int64(len(data)) > left {
			_, _ = server.Write(data[:left])
			w.cutAfter.Store(-1)
			w.cuts.Add(1)
			w.cut()
			return io.ErrClosedPipe
		}
		w.cutAfter.Add(-int64(len(data)))
	}
	_, err := server.Write(data)
	return err
}

func (w *wire) toClient(client net.Conn, data []byte) error {
	if w.deaf.Load() {
		return nil
	}
	_, err := client.Write(data)
	return err
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for conn := range w.conns {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
		delete(w.conns, conn)
	}
}

// TestConnectionCutAtAnyByte cuts the connection before the block, at many places inside it and behind it.
func TestConnectionCutAtAnyByte(t *testing.T) {
	r := newRig(t)
	w := newWire(t, r.server.Options(r.db).Addr[0])
	r.conn = r.connect(w.listener.Addr().String())
	accepted := r.feed(0)
	r.deliver()
	// A fresh process makes a fresh connection, so each cut falls at another byte of about 25 KB that a group sends.
	cuts := 0
	for at := int64(50); at < 40_000; at += 900 + at/4 {
		accepted += r.feed(int(at))
		before := w.cuts.Load()
		w.cutAfter.Store(at)
		r.deliver()
		cuts += int(w.cuts.Load() - before)
		w.cutAfter.Store(-1)
		r.requireExact()
		r.requireBalanced(accepted)
		if t.Failed() {
			t.Fatalf("after a cut at byte %d", at)
		}
	}
	if cuts < 8 {
		t.Errorf("only %d connections were cut", cuts)
	}
}

// TestAnswerNeverComes lets the server store the block and swallows its answer, so that the client times out, three times over.
func TestAnswerNeverComes(t *testing.T) {
	r := newRig(t)
	w := newWire(t, r.server.Options(r.db).Addr[0])
	r.conn = r.connect(w.listener.Addr().String())
	accepted := r.feed(0)
	var mu sync.Mutex
	swallowed := 0
	d, stop := r.start(func(c *Config) {
		c.InsertTimeout = 500 * time.Millisecond
		c.Step = func(step string) {
			if step != "delivery: after the intent" && step != "settle: before the retry" {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if swallowed++; swallowed <= 3 {
				w.deaf.Store(true)
				time.AfterFunc(800*time.Millisecond, func() { w.deaf.Store(false); w.cut() })
			}
		}
	})
	defer stop()
	deadline := time.Now().Add(time.Minute)
	for r.journal.Stats().SealedSegments > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("not delivered: %v", d.Ready())
		}
		time.Sleep(10 * time.Millisecond)
	}
	if swallowed < 3 {
		t.Fatalf("%d answers were swallowed, want 3", swallowed)
	}
	r.requireExact()
	r.requireBalanced(accepted)
}

// TestServerAway journals on while nothing answers, then drains in larger groups.
func TestServerAway(t *testing.T) {
	r := newRig(t)
	w := newWire(t, r.server.Options(r.db).Addr[0])
	r.conn = r.connect(w.listener.Addr().String())
	metrics := prometheus.NewRegistry()
	d, stop := r.start(func(c *Config) { c.Metrics = metrics })
	defer stop()
	w.target.Store("127.0.0.1:1") // nothing listens there
	w.cut()
	var accepted int64
	for i := range 40 {
		accepted += r.feed(i)
	}
	if err := d.Ready(); err == nil {
		time.Sleep(time.Second)
		if d.Ready() == nil {
			t.Error("delivery claims to work without a server")
		}
	}
	if d.Pending() != accepted || d.AsOf().IsZero() {
		t.Errorf("%d pending as of %v, want %d", d.Pending(), d.AsOf(), accepted)
	}
	const lag = "pagetally_delivery_lag_seconds"
	if before := gauged(t, metrics, lag); before <= 0 || gauged(t, metrics, lag) <= before {
		t.Errorf("the lag is %v s and stands still, want it to grow while nothing is delivered", before)
	}
	w.target.Store(r.server.Options(r.db).Addr[0])
	deadline := time.Now().Add(time.Minute)
	for r.journal.Stats().SealedSegments > 0 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	r.requireExact()
	r.requireBalanced(accepted)
	var groups uint64
	r.scan(`SELECT uniqExact(batch) FROM ledger`, &groups)
	if groups > 10 {
		t.Errorf("40 segments were delivered in %d groups: no larger batches under backlog", groups)
	}
}
