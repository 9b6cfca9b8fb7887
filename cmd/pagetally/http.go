package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/adaptor"
	"github.com/gofiber/fiber/v2/middleware/pprof"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pagetally/pagetally/ingest"
)

// httpServer owns the listener. Routes are added to app before serve.
type httpServer struct {
	app *fiber.App
	ln  net.Listener
}

// newHTTPServer takes the address at once, so that a taken port is an error before anything else starts.
func newHTTPServer(listen string, cfg fiber.Config) (*httpServer, error) {
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	app := fiber.New(cfg)
	ingest.Harden(app)
	app.Server().CloseOnShutdown = true // replies given during a stop tell the client not to reuse the connection
	return &httpServer{app: app, ln: ingest.Linger(ln)}, nil
}

// url is where a client on this machine reaches the server.
func (h *httpServer) url() string {
	addr := h.ln.Addr().(*net.TCPAddr)
	if addr.IP.IsUnspecified() {
		return fmt.Sprintf("http://127.0.0.1:%d", addr.Port)
	}
	return "http://" + addr.String()
}

// serve answers until shutdown.
func (h *httpServer) serve(context.Context) error { return h.app.Listener(h.ln) }

// shutdown takes no more connections, closes idle ones, and waits at most timeout for requests in flight to be answered.
func (h *httpServer) shutdown(timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	err := h.app.ShutdownWithContext(ctx)
	if closed := h.ln.Close(); closed != nil && !errors.Is(closed, net.ErrClosed) {
		err = errors.Join(err, closed)
	}
	return err
}

// close frees the address of a server that never served.
func (h *httpServer) close() { _ = h.ln.Close() }

// registerMetrics adds /metrics in Prometheus' formats.
func registerMetrics(app *fiber.App, reg *prometheus.Registry) {
	handler := promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg})
	app.Get("/metrics", adaptor.HTTPHandler(http.Handler(handler)))
}

// registerPprof adds /debug/pprof/.
func registerPprof(app *fiber.App) { app.Use(pprof.New()) }
