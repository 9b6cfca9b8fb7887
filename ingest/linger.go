package ingest

import (
	"io"
	"net"
	"time"
)

// Bounds of lingering.
const (
	lingerTime  = 2 * time.Second
	lingerBytes = 64 << 20
)

// Linger wraps a listener whose server answers some requests before it has read them. Closed at once, such a connection is reset,
// because bytes are unread, and the reset overtakes the answer: the client reports a broken connection in place of a 413. A
// connection that lingers is closed for writing, and read until the client has seen the answer and closes, for a short time.
func Linger(ln net.Listener) net.Listener { return lingeringListener{ln} }

type lingeringListener struct{ net.Listener }

func (l lingeringListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &lingeringConn{Conn: c}, nil
}

// lingeringConn is used by one goroutine, but for Close.
type lingeringConn struct {
	net.Conn
	linger bool // set before Close by the goroutine that serves it
}

// Close closes the connection, at once unless it is to linger.
func (c *lingeringConn) Close() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && c.linger {
		if half.CloseWrite() == nil && c.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
			_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
		}
	}
	return c.Conn.Close()
}
