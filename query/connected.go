package query

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/gofiber/fiber/v2"
	"golang.org/x/sys/unix"
)

// errCallerGone says that nobody waits for the answer any more.
var errCallerGone = errors.New("the caller is gone")

// connectedEvery is how often a connection is looked at while its question is answered.
const connectedEvery = 250 * time.Millisecond

// whileConnected returns a context that ends soon after the caller hung up, which the HTTP server does not tell: it reads from a
// connection only when it wants another request. A caller who closes the sending side alone counts as gone, too. stop must be called
// before the handler returns.
func whileConnected(c *fiber.Ctx) (ctx context.Context, stop func()) {
	conn, ok := c.Context().Conn().(syscall.Conn)
	if !ok {
		return c.UserContext(), func() {}
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return c.UserContext(), func() {}
	}
	ctx, cancel := context.WithCancelCause(c.UserContext())
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(connectedEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				if hungUp(raw) {
					cancel(errCallerGone)
				}
			}
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

// hungUp looks without taking anything: bytes of a next request are left where they are.
func hungUp(raw syscall.RawConn) (gone bool) {
	err := raw.Control(func(fd uintptr) {
		var next [1]byte
		n, _, err := unix.Recvfrom(int(fd), next[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		gone = n == 0 && err == nil || errors.Is(err, unix.ECONNRESET)
	})
	return gone || err != nil
}
