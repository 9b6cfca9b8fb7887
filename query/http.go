package query

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/gofiber/fiber/v2/middleware/compress"
	"github.com/prometheus/client_golang/prometheus"
)

// Config of a Server.
type Config struct {
	Store *Store
	Sites Sites
	Hot   *Hot // nil: /v1/realtime and recent counts are read from ClickHouse
	// Badges may be nil: then every badge has to name its site.
	Badges BadgeSites
	// Keys may be nil: then only public sites can be read, and whatever Loopback lets through.
	Keys Keys
	// Loopback reports whether a request comes from this machine and needs no key; nil means never.
	Loopback func(*fiber.Ctx) bool
	// KeyRate is how many questions a second one key may ask, for a while twenty times as many at once. 0: 20 a second.
	KeyRate float64
	Now     func() time.Time // nil is time.Now
	Log     *slog.Logger
	Metrics prometheus.Registerer // nil registers nothing
}

// Server answers questions over HTTP: GET /v1/count, /v1/totals, /v1/timeseries, /v1/top, /v1/realtime,
// /v1/ledger, and badges.
type Server struct {
	cfg     Config
	metrics *serverMetrics
	// lastLog limits a repeated failure to one line in logEvery.
	lastLog atomic.Int64
	streams *streams
	public  *publicReader
	recent  *bases
	cache   *answerCache
	running *shared[*encoded]
	rates   *keyRates
}

const logEvery = 10 * time.Second

// New checks cfg; it asks nothing.
func New(cfg Config) (*Server, error) {
	if cfg.Store == nil || cfg.Sites == nil {
		return nil, errors.New("query server: store and sites are needed")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	m, err := newServerMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("register query metrics: %w", err)
	}
	return &Server{
		cfg: cfg, metrics: m, streams: newStreams(), public: newPublicReader(cfg.Store.Count, cfg.Now),
		cache: newAnswerCache(), running: newShared[*encoded](), rates: newKeyRates(cfg.KeyRate, cfg.Now),
		recent: newBases(cfg.Store, cfg.Hot, cfg.Now),
	}, nil
}

// Register adds the routes to app.
func (s *Server) Register(app *fiber.App) {
	app.Use([]string{"/v1/count", "/v1/totals", "/v1/timeseries", "/v1/top", "/api/v2", "/api/v1/stats"}, compress.New(compress.Config{
		Level: compress.LevelBestSpeed,
		Next:  func(c *fiber.Ctx) bool { return len(c.Request().Header.Peek(fiber.HeaderAcceptEncoding)) == 0 },
	}))
	app.Get("/v1/count", ask(s, Count, s.Count))
	app.Get("/v1/totals", ask(s, Totals, s.cfg.Store.Totals))
	app.Get("/v1/timeseries", ask(s, Timeseries, s.cfg.Store.Timeseries))
	app.Get("/v1/top", ask(s, Top, s.cfg.Store.Top))
	app.Post("/api/v2/query", s.plausibleQuery)
	app.Get("/api/docs/query/schema.json", s.plausibleQuerySchema)
	app.Get("/api/v1/stats/realtime/visitors", s.plausibleRealtime)
	app.Get("/api/v1/stats/aggregate", plausibleV1(s, "aggregate", s.plausibleAggregate))
	app.Get("/api/v1/stats/timeseries", plausibleV1(s, "timeseries", s.plausibleTimeseries))
	app.Get("/api/v1/stats/breakdown", plausibleV1(s, "breakdown", s.plausibleBreakdown))
	app.Get("/v1/openapi.json", s.openAPI)
	app.Get("/docs", s.docs)
	app.Get("/v1/realtime", s.realtime)
	app.Get("/v1/realtime/stream", s.stream)
	app.Get("/v1/ledger", s.ledger)
	app.Get("/badge/*", s.badge)
	app.Get("/counter/*", s.counter)
}

func (s *Server) ledger(c *fiber.Ctx) error {
	start := s.cfg.Now()
	books, err := func() (Books, error) {
		for name := range queryValues(c) {
			return Books{}, badParam(name, "unknown parameter; the ledger takes none")
		}
		if err := s.admit(c, allSites); err != nil {
			return Books{}, err
		}
		return s.cfg.Store.Ledger(c.UserContext())
	}()
	return s.reply(c, "ledger", start, books, err)
}

// queryValues copies the parameters: the server uses their bytes again after the request.
func queryValues(c *fiber.Ctx) url.Values {
	values := url.Values{}
	c.Context().QueryArgs().VisitAll(func(name, value []byte) { values.Add(string(name), string(value)) })
	return values
}

func (s *Server) reply(c *fiber.Ctx, question string, start time.Time, answer any, err error) error {
	c.Set(fiber.HeaderCacheControl, "no-store")
	if err == nil {
		s.metrics.observe(question, "ok", s.cfg.Now().Sub(start))
		return c.JSON(answer)
	}
	e := s.failed(c, question, start, err)
	return c.Status(e.status).JSON(fiber.Map{"error": e})
}

// failed books an error and sets the headers that go with it.
func (s *Server) failed(c *fiber.Ctx, question string, start time.Time, err error) *httpError {
	e := toHTTPError(err)
	s.metrics.observe(question, e.Code, s.cfg.Now().Sub(start))
	if e.status >= fiber.StatusInternalServerError {
		s.logFailure(question, err)
		c.Set(fiber.HeaderRetryAfter, "2")
	}
	if e.wait > 0 {
		c.Set(fiber.HeaderRetryAfter, strconv.Itoa(int(math.Ceil(e.wait.Seconds()))))
	}
	if e.status == fiber.StatusUnauthorized {
		c.Set(fiber.HeaderWWWAuthenticate, "Bearer")
	}
	return e
}

func (s *Server) logFailure(question string, err error) {
	now, last := s.cfg.Now().UnixNano(), s.lastLog.Load()
	if now-last >= int64(logEvery) && s.lastLog.CompareAndSwap(last, now) {
		s.cfg.Log.Warn("query failed", "question", question, "error", err)
	}
}

// statusCallerGone is what others log, too, of a caller who did not wait; nobody sees it.
const statusCallerGone = 499

// httpError is an error as a caller sees it.
type httpError struct {
	status  int
	wait    time.Duration // before asking again, if known
	Code    string        `json:"code"`
	Field   string        `json:"field,omitempty"`
	Message string        `json:"message"`
}

func (e *httpError) Error() string { return e.Code + ": " + e.Message }

// toHTTPError shows callers their own mistakes in full and the engine's not at all.
func toHTTPError(err error) *httpError {
	var shown *httpError
	var param *ParamError
	switch {
	case errors.As(err, &shown):
		return shown
	case errors.As(err, &param):
		return &httpError{status: fiber.StatusBadRequest, Code: "bad_parameter", Field: param.Field, Message: param.Message}
	case errors.Is(err, errCallerGone):
		return &httpError{status: statusCallerGone, Code: "cancelled", Message: "the caller hung up"}
	case errors.Is(err, ErrBusy):
		return &httpError{status: fiber.StatusServiceUnavailable, Code: "busy", Message: "too many queries at once, try again"}
	case errors.Is(err, ErrTooExpensive):
		return &httpError{status: fiber.StatusServiceUnavailable, Code: "too_expensive", Message: "the answer would take too much time or memory: ask for a shorter range"}
	default:
		return &httpError{status: fiber.StatusServiceUnavailable, Code: "unavailable", Message: "the tables cannot be read now, try again"}
	}
}
