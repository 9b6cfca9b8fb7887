package query

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
)

// Limits of the live streams.
const (
	streamEvery     = time.Second
	streamHeartbeat = 15 * time.Second // between two signs of life while nothing changes
	streamClients   = 256
	streamWrite     = 10 * time.Second // for a client to take one message
	streamRead      = 5 * time.Second  // for one reading of the last hour
)

// streams are the clients of GET /v1/realtime/stream.
type streams struct {
	clients atomic.Int64
	stop    chan struct{}
	once    sync.Once

	mu     sync.Mutex
	latest map[string]*reading // by site
}

// reading is what the clients of one site share: the last hour, read at most once a second.
type reading struct {
	clients int // guarded by streams.mu

	mu   sync.Mutex
	at   time.Time
	text string
	what string // text without the time of the reading, to tell whether anything changed
	err  error
}

func newStreams() *streams { return &streams{stop: make(chan struct{}), latest: map[string]*reading{}} }

// StopStreams ends the live streams and refuses new ones. An orderly stop begins with it: a stream does not end by itself.
func (s *Server) StopStreams() { s.streams.once.Do(func() { close(s.streams.stop) }) }

// stream answers GET /v1/realtime/stream?site= with server-sent events: the answer of /v1/realtime, once a second when it changed.
func (s *Server) stream(c *fiber.Ctx) error {
	start := s.cfg.Now()
	domain, err := s.realtimeSite(c)
	if err == nil {
		err = s.streams.admit()
	}
	if err != nil {
		return s.reply(c, "stream", start, nil, err)
	}
	s.metrics.observe("stream", "ok", s.cfg.Now().Sub(start))
	c.Set(fiber.HeaderContentType, "text/event-stream")
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Set("X-Accel-Buffering", "no") // nginx would hold the events back
	conn := c.Context().Conn()
	c.Context().SetBodyStreamWriter(func(w *bufio.Writer) {
		defer s.streams.clients.Add(-1)
		s.follow(w, conn, domain)
	})
	return nil
}

// admit takes a place, which the stream gives back at its end.
func (s *streams) admit() error {
	busy := &httpError{status: fiber.StatusServiceUnavailable, Code: "busy", Message: "too many live streams at once, try again or ask /v1/realtime"}
	select {
	case <-s.stop:
		return &httpError{status: fiber.StatusServiceUnavailable, Code: "stopping", Message: "the server stops, try again"}
	default:
	}
	if s.clients.Add(1) > streamClients {
		s.clients.Add(-1)
		return busy
	}
	return nil
}

// join and leave count the clients of a site; what they share goes with the last.
func (s *streams) join(site string) *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.latest[site]
	if r == nil {
		r = &reading{}
		s.latest[site] = r
	}
	r.clients++
	return r
}

func (s *streams) leave(site string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.latest[site]; r.clients > 1 {
		r.clients--
	} else {
		delete(s.latest, site)
	}
}

// follow writes until the client is gone or the server stops.
func (s *Server) follow(w *bufio.Writer, conn net.Conn, site string) {
	shared := s.streams.join(site)
	defer s.streams.leave(site)
	ticker := time.NewTicker(streamEvery)
	defer ticker.Stop()
	sent, last := "", time.Now()
	message := "retry: 2000\n\n"
	for {
		if message != "" {
			// The server's own time-out is meant for answers that end.
			_ = conn.SetWriteDeadline(time.Now().Add(streamWrite))
			if _, err := w.WriteString(message); err != nil || w.Flush() != nil {
				return
			}
			last = time.Now()
		}
		text, err := s.read(shared, site)
		if err != nil {
			text = "event: error\ndata: {\"code\":\"unavailable\"}\n\n"
		}
		switch {
		case text != sent:
			message, sent = text, text
			continue
		case time.Since(last) >= streamHeartbeat:
			message = ":\n\n"
		default:
			message = ""
		}
		select {
		case <-s.streams.stop:
			return
		case <-ticker.C:
		}
	}
}

// read is the last hour of a site as an event, about a second old at most. It stays the same text while nothing changes.
func (s *Server) read(r *reading, site string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) < streamEvery*9/10 {
		return r.text, r.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), streamRead)
	defer cancel()
	result, err := s.Realtime(ctx, site)
	r.at, r.err = time.Now(), err
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(result)
	if err != nil {
		return "", err
	}
	result.Meta.AsOf = ""
	what, err := json.Marshal(result)
	if err != nil {
		return "", err
	}
	if string(what) != r.what {
		r.what, r.text = string(what), fmt.Sprintf("event: realtime\ndata: %s\n\n", text)
	}
	return r.text, nil
}
