package chaos

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// recoverWithin is how soon after an outage everything that came in meanwhile is counted, at an ordinary rate.
const recoverWithin = 2 * time.Minute

const deliveryRetries = "pagetally_delivery_retries_total"

// TestChaosRecovery holds the engine down at an ordinary rate: the outage shows while it lasts, and afterwards everything is counted
// soon, without a restart.
func TestChaosRecovery(t *testing.T) {
	s := newServer(t)
	r := newRecord()
	t.Cleanup(func() {
		if t.Failed() {
			s.report()
		}
	})
	s.start()
	eventually(t, time.Minute, "first start", s.ready)
	process, failures := s.process(), metric(t, s, deliveryRetries)
	stop := make(chan struct{})
	var senders sync.WaitGroup
	for i := range uint64(5) { // so that 50 a second are sent also where the disk is slow
		c := &client{name: fmt.Sprintf("even%d", i), url: s.url, record: r, random: rand.New(rand.NewPCG(seed(), i)), http: newConnection()}
		senders.Go(func() { c.sendEvenly(10, stop) })
	}

	up := holdKilled(t, s)
	time.Sleep(outageLength())
	if s.ready() == nil {
		t.Error("ready during an outage")
	}
	if n := metric(t, s, deliveryRetries) - failures; n < 3 {
		t.Errorf("%s rose by %g", deliveryRetries, n)
	}
	if !strings.Contains(s.log.String(), "level=WARN msg=\"delivery is waiting\"") {
		t.Error("the log does not tell that delivery waits")
	}
	up()
	began := time.Now()
	close(stop)
	senders.Wait()
	books := drain(t, s, recoverWithin)
	eventually(t, recoverWithin-time.Since(began), "readiness", s.ready)
	t.Logf("%d events of an outage of %s counted after %s", books.Accepted, outageLength(), time.Since(began).Round(time.Millisecond))
	if least := int64(20 * outageLength().Seconds()); books.Accepted < least {
		t.Errorf("%d events were accepted, want at least %d", books.Accepted, least)
	}
	if s.process() != process {
		t.Error("the server was started anew")
	}
	verify(t, s, r, books)
	s.stop()
}

// sendEvenly sends so many beacons a second until stop, each until it is acknowledged.
func (c *client) sendEvenly(perSecond int, stop <-chan struct{}) {
	defer c.http.CloseIdleConnections()
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			c.deliver(c.beacon())
		}
	}
}

// metric reads a gauge or counter without labels.
func metric(t testing.TB, s *server, name string) float64 {
	t.Helper()
	response, err := reading.Get(s.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return n
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
