//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// client drives its connections in one goroutine: a goroutine a connection would cost several times as much of the cores
// that the server needs.
type client struct {
	plan
	traffic *traffic
	load    *load
	poll    int // epoll
	conns   []*conn
	idle    []*conn // may send, while the rate holds them back
	open    int     // connections that have not ended
	flying  int     // requests without an answer
	sent    int64
	begun   time.Time
	nextID  uint64
	scratch []byte // the request that is being sent, with its id
}

// conn is a connection with at most one request in flight.
type conn struct {
	fd     int
	next   int           // request to send
	sentAt time.Duration // since the beginning; of the request in flight
	flying bool
	buf    [2048]byte // the answer as far as it is there
	have   int
}

// newClient connects. Each connection has a loopback address of its own, so that they are different visitors.
func newClient(p plan, t *traffic, number int) (*client, error) {
	c := &client{plan: p, traffic: t, load: newLoad(), poll: -1, nextID: rand.Uint64()}
	to, err := netip.ParseAddrPort(p.addr)
	if err != nil {
		return nil, err
	}
	if c.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	for i := range p.connections {
		fd, err := dial(netip.AddrFrom4([4]byte{127, byte(number + 1), byte(i >> 8), byte(i)}), to)
		if err != nil {
			c.close()
			return nil, fmt.Errorf("connection %d: %w", i, err)
		}
		c.conns = append(c.conns, &conn{fd: fd, next: (number*7919 + i*613) % len(t.requests)})
		event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}
		if err := unix.EpollCtl(c.poll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
			c.close()
			return nil, fmt.Errorf("epoll: %w", err)
		}
	}
	c.open, c.idle = len(c.conns), append(c.idle, c.conns...)
	return c, nil
}

// dial connects from one address to another; the descriptor does not block afterwards.
func dial(from netip.Addr, to netip.AddrPort) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = unix.Bind(fd, &unix.SockaddrInet4{Addr: from.As4()})
	if err == nil {
		err = unix.Connect(fd, &unix.SockaddrInet4{Addr: to.Addr().As4(), Port: int(to.Port())})
	}
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (c *client) close() {
	if c == nil {
		return
	}
	for _, conn := range c.conns {
		c.end(conn)
	}
	if c.poll >= 0 {
		_ = unix.Close(c.poll)
		c.poll = -1
	}
}

// end closes a connection once. A request in flight stays without an answer.
func (c *client) end(conn *conn) {
	if conn.fd < 0 {
		return
	}
	_ = unix.Close(conn.fd)
	conn.fd = -1
	c.open--
	if conn.flying {
		conn.flying = false
		c.flying--
		c.load.Unanswered++
	}
}

// run sends until the time is over and receives until everything is answered.
func (c *client) run(ctx context.Context, begun time.Time) error {
	c.begun = begun
	events := make([]unix.EpollEvent, 512)
	for {
		now := time.Since(begun)
		sending := now < c.during && (c.most == 0 || c.sent < c.most) && ctx.Err() == nil
		switch {
		case c.open == 0:
			return errors.New("server closed all connections")
		case sending:
			c.sendDue(now)
		case c.flying == 0:
			return ctx.Err()
		case now > c.during+answerWait:
			return fmt.Errorf("%d requests without an answer after %s", c.flying, answerWait)
		}
		n, err := unix.EpollWait(c.poll, events, c.patience(sending))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("epoll: %w", err)
		}
		for _, event := range events[:max(n, 0)] {
			c.receive(c.conns[event.Fd], sending)
		}
	}
}

// patience is how long to wait for answers, in milliseconds: not long while a rate has to be kept.
func (c *client) patience(sending bool) int {
	if sending && c.rate > 0 {
		return 1
	}
	return 100
}

// sendDue sends on idle connections what the rate asks for by now.
func (c *client) sendDue(now time.Duration) {
	due := int64(len(c.idle))
	if c.most > 0 {
		due = min(due, c.most-c.sent)
	}
	if c.rate > 0 {
		due = min(due, int64(now.Seconds()*float64(c.rate))-c.sent)
	}
	for ; due > 0; due-- {
		last := len(c.idle) - 1
		conn := c.idle[last]
		c.idle = c.idle[:last]
		c.send(conn)
	}
}

// send begins the connection's next request. A request is far smaller than the socket's buffer, which is empty, so that it
// is taken whole or the connection is broken.
func (c *client) send(conn *conn) {
	request := c.request(conn.next)
	conn.next = (conn.next + 1) % len(c.traffic.requests)
	conn.sentAt = time.Since(c.begun)
	conn.flying, conn.have = true, 0
	c.flying++
	c.sent++
	if n, err := unix.Write(conn.fd, request); err != nil || n < len(request) {
		c.end(conn)
	}
}

// request is the i-th, with an id of its own if it has one.
func (c *client) request(i int) []byte {
	request := c.traffic.requests[i]
	if c.traffic.ids == nil {
		return request
	}
	c.scratch = append(c.scratch[:0], request...)
	c.nextID++
	for at, id := c.traffic.ids[i]+len(idDigits), c.nextID; at > c.traffic.ids[i]; id >>= 4 {
		at--
		c.scratch[at] = "0123456789abcdef"[id&15]
	}
	return c.scratch
}

// receive takes what has arrived, and sends the next request when an answer is complete.
func (c *client) receive(conn *conn, sending bool) {
	if conn.fd < 0 {
		return
	}
	n, err := unix.Read(conn.fd, conn.buf[conn.have:])
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return
	case err != nil || n <= 0 || !conn.flying:
		c.end(conn)
		return
	}
	conn.have += n
	answer, complete := c.traffic.parse(conn.buf[:conn.have])
	if !complete {
		if conn.have == len(conn.buf) {
			c.end(conn) // too large for an answer of either server
		}
		return
	}
	c.book(conn, answer)
	switch {
	case !sending:
	case c.rate > 0 || c.most > 0:
		c.idle = append(c.idle, conn)
	default:
		c.send(conn)
	}
}

func (c *client) book(conn *conn, a answer) {
	conn.flying = false
	c.flying--
	switch a {
	case acknowledged:
		c.load.Acknowledged++
		_ = c.load.Latency.RecordValue((time.Since(c.begun) - conn.sentAt).Microseconds()) // none is beyond answerWait
	case dropped:
		c.load.Dropped++
	case refused:
		c.load.Refused++
	}
}
