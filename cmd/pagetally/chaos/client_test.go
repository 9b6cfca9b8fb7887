package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// outcome is what a sender may conclude from one try.
type outcome int

const (
	acknowledged outcome = iota
	refused              // 503 or 429: not counted, try again later
	noAnswer             // counted or not: send the same again
	impossible           // an answer that a correct request never gets
)

// client sends events over a connection of its own.
type client struct {
	name   string
	url    string
	key    string // of the API; empty: a browser, or a job on this machine
	record *record
	random *rand.Rand
	http   *http.Client
	pace   time.Duration // between two requests
	serial int
	sent   []*request // some acknowledged ones, to be sent again
}

// request is a body that may be sent any number of times.
type request struct {
	path    string
	body    []byte
	headers map[string]string
	events  []event
	items   int // in the body, copies included
}

// fleet runs clients until it is told to stop.
type fleet struct {
	stop    chan struct{}
	clients sync.WaitGroup
}

// launch starts senders of every kind.
func launch(s *server, r *record, seed uint64, key string) *fleet {
	f := &fleet{stop: make(chan struct{})}
	kinds := []struct {
		name  string
		count int
		key   string
		pace  time.Duration
		next  func(*client) *request
	}{
		{"beacon", 16, "", 10 * time.Millisecond, (*client).beacon},
		{"keyed", 3, key, 60 * time.Millisecond, (*client).keyedBatch},
		{"local", 2, "", 60 * time.Millisecond, (*client).localBatch},
		{"idempotent", 1, key, 60 * time.Millisecond, (*client).idempotentBatch},
		{"loose", 2, "", 100 * time.Millisecond, nil},
	}
	stream := uint64(1)
	for _, kind := range kinds {
		for i := range kind.count {
			stream++
			c := &client{
				name: fmt.Sprintf("%s%d", kind.name, i), url: s.url, key: kind.key, record: r, pace: kind.pace,
				random: rand.New(rand.NewPCG(seed, stream)),
				http:   newConnection(),
			}
			f.clients.Go(func() { c.run(f.stop, kind.next) })
		}
	}
	return f
}

// newConnection makes a client that keeps one connection open.
func newConnection() *http.Client {
	return &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 1}}
}

// finish stops the senders; each first repeats its last request until that is acknowledged.
func (f *fleet) finish(within time.Duration) error {
	close(f.stop)
	done := make(chan struct{})
	go func() { f.clients.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-time.After(within):
		return fmt.Errorf("senders get no acknowledgement within %s", within)
	}
}

func (c *client) run(stop <-chan struct{}, next func(*client) *request) {
	defer c.http.CloseIdleConnections()
	for {
		switch {
		case next == nil:
			c.sendLoose()
		case len(c.sent) > 0 && c.random.IntN(12) == 0: // as a sender does that did not see the answer
			c.deliver(c.sent[c.random.IntN(len(c.sent))])
		default:
			r := next(c)
			c.deliver(r)
			c.remember(r)
		}
		select {
		case <-stop:
			return
		case <-time.After(c.pace/2 + rand.N(c.pace)):
		}
	}
}

// deliver sends r until it is acknowledged.
func (c *client) deliver(r *request) {
	for try := 0; ; try++ {
		outcome, detail := c.try(r)
		switch outcome {
		case acknowledged:
			c.record.acknowledge(r.events)
			return
		case impossible:
			c.record.fail(c.name + ": " + detail)
			return
		}
		c.record.note(outcome)
		time.Sleep(min(time.Duration(try+1)*10*time.Millisecond, 100*time.Millisecond))
	}
}

const remembered = 50

func (c *client) remember(r *request) {
	if len(c.sent) < remembered {
		c.sent = append(c.sent, r)
		return
	}
	c.sent[c.random.IntN(remembered)] = r
}

// try sends r once.
func (c *client) try(r *request) (outcome, string) {
	ctx, cancel := context.WithTimeout(context.Background(), 12*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+r.path, bytes.NewReader(r.body))
	if err != nil {
		return impossible, err.Error()
	}
	for name, value := range r.headers {
		request.Header.Set(name, value)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return noAnswer, ""
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return noAnswer, ""
	}
	return judge(r, response, body)
}

// judge says what an answer promises.
func judge(r *request, response *http.Response, body []byte) (outcome, string) {
	text := fmt.Sprintf("%s: %d %v %.300s", r.path, response.StatusCode, response.Header, body)
	switch code := response.StatusCode; {
	case code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests:
		if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err != nil || seconds < 1 {
			return impossible, "no Retry-After in " + text
		}
		return refused, ""
	case code != http.StatusAccepted && code != http.StatusOK:
		return impossible, text
	case response.Header.Get("X-Plausible-Dropped") != "", response.Header.Get("X-Pagetally-Reason") != "":
		return impossible, text
	case r.path == "/api/event":
		return acknowledged, ""
	}
	var reply struct {
		Accepted int
		Receipt  string
		Errors   []any
	}
	if err := json.Unmarshal(body, &reply); err != nil || reply.Accepted != r.items || reply.Receipt == "" || len(reply.Errors) > 0 {
		return impossible, text
	}
	return acknowledged, ""
}

// sendLoose sends an event without an id, once.
func (c *client) sendLoose() {
	p := page{"pageview", fmt.Sprintf("/loose/%s/%d", c.name, c.random.IntN(2))}
	agent := c.agent()
	r := &request{path: "/api/event", headers: browserHeaders(agent), body: encode(map[string]any{
		"n": p.name, "u": "https://" + site + p.path, "d": site,
	})}
	outcome, detail := c.try(r)
	switch outcome {
	case impossible:
		c.record.fail(c.name + ": " + detail)
		return
	case refused:
		return // a promise that it does not count
	}
	c.record.noteLoose(p, outcome == acknowledged)
}

func browserHeaders(agent string) map[string]string {
	return map[string]string{"Content-Type": "text/plain", "User-Agent": agent}
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of texts and numbers
	}
	return b
}
