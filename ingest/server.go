package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pagetally/pagetally/ingest/journal"
)

// Limits of a request, in bytes after decoding unless said otherwise.
const (
	MaxEventBytes = 64 << 10 // one event: a body of a one-event endpoint, or an item of a batch
	MaxBatchBytes = 16 << 20 // a body of a batch endpoint; also any body as sent
	MaxItems      = 10_000   // of a batch
)

// Journal makes a request's events durable.
type Journal interface {
	// Append returns once payload, the encodings of rows events one after the other, is on disk. It keeps no part of payload.
	Append(ctx context.Context, payload []byte, rows int) (journal.Position, error)
}

// Delivery knows what became of journaled events.
type Delivery interface {
	// WaitStored returns when the batch that holds the segment is stored, or ctx's error.
	WaitStored(ctx context.Context, segment ulid.ULID) error
	// Status says where the rows of a receipt are: "pending", "stored", "parked", "quarantined" or "unknown".
	Status(ctx context.Context, node string, segment ulid.ULID, first uint32, rows int) (string, error)
}

// KeyLookup finds the API key of a secret.
type KeyLookup interface {
	Lookup(secret string) (Key, bool)
}

// SaltSource has the salts of visitor hashes.
type SaltSource interface {
	// For returns the salt of a calendar day; ErrNoSalt when there is none.
	For(day Day) ([16]byte, error)
}

// Config is what a Server needs. Journal, Keys, Salts and Sites are required.
type Config struct {
	Journal  Journal
	Keys     KeyLookup
	Salts    SaltSource
	Sites    *Sites
	Delivery Delivery // nil: receipts read "pending" and ack=stored answers 202 at its deadline

	// Totals and Pending make the counts of POST /v1/events?return=count; without both there are none. Delivery has to report to
	// Pending.
	Totals  Totals
	Pending *Pending

	Places Places    // nil: country, region and city are unknown
	Spam   *SpamList // nil: the built-in list

	Node    string // this node's id, part of every receipt: 1-64 letters, digits, '_' or '-'
	Proxies *Proxies
	// TrustLoopback gives callers without a key the rights of one when they come from the loopback interface, name a loopback
	// Host and carry no forwarded header. Only for a server that listens on loopback.
	TrustLoopback bool
	AckTimeout    time.Duration // longest wait of ack=stored; 10 s when zero
	TokenSecret   []byte        // signs Umami's cache tokens; when empty, a new one that ends with the process

	GoatcounterCalls int // that a key may make to GoatCounter's API in goatPeriod; 60 when zero, any number when negative

	Log     *slog.Logger
	Metrics prometheus.Registerer
	Now     func() time.Time // the clock; time.Now when nil
}

// Server answers the endpoints that receive events. It is safe for concurrent use.
type Server struct {
	journal    Journal
	keys       KeyLookup
	salts      SaltSource
	sites      *Sites
	delivery   Delivery
	places     Places
	spam       *SpamList
	node       string
	proxies    *Proxies
	loopback   bool
	ackTimeout time.Duration
	now        func() time.Time

	tokens      umamiTokens
	agents      *agentCache
	idempotency *idempotencyKeys
	metrics     *metrics
	refusals    *edgeLog
	deadline    *sharedDeadline
	addresses   *rateTable // beacons by address and site
	siteRates   *rateTable // beacons by site
	goatRates   *rateTable // calls of GoatCounter's API by key
	goatCalls   int
	paths       *pathSet

	pending *Pending  // nil: no counts are returned
	returns *returner // likewise

	trace *trace // of a hit that is explained: nothing is taken from a limit
}

// New checks cfg and returns a server; it starts nothing.
func New(cfg Config) (*Server, error) {
	switch {
	case cfg.Journal == nil || cfg.Keys == nil || cfg.Salts == nil || cfg.Sites == nil:
		return nil, errors.New("ingest: Journal, Keys, Salts and Sites are required")
	case !validNode(cfg.Node):
		return nil, fmt.Errorf("ingest: node id %q is not 1-64 letters, digits, '_' or '-'", cfg.Node)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Proxies == nil {
		cfg.Proxies = &Proxies{}
	}
	if cfg.AckTimeout <= 0 {
		cfg.AckTimeout = 10 * time.Second
	}
	if cfg.GoatcounterCalls == 0 {
		cfg.GoatcounterCalls = goatCalls
	}
	if cfg.Spam == nil {
		cfg.Spam = builtInSpam()
	}
	if len(cfg.TokenSecret) == 0 {
		cfg.TokenSecret = newSecret()
	}
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("ingest metrics: %w", err)
	}
	s := &Server{
		journal: cfg.Journal, keys: cfg.Keys, salts: cfg.Salts, sites: cfg.Sites, delivery: cfg.Delivery,
		places: cfg.Places, spam: cfg.Spam,
		node: cfg.Node, proxies: cfg.Proxies, loopback: cfg.TrustLoopback, ackTimeout: cfg.AckTimeout, now: cfg.Now,
		tokens: umamiTokens{cfg.TokenSecret}, agents: newAgentCache(), idempotency: newIdempotencyKeys(cfg.Now), metrics: m, refusals: &edgeLog{log: cfg.Log}, deadline: &sharedDeadline{},
		addresses: newRateTable(cfg.Now(), burstWindow), siteRates: newRateTable(cfg.Now(), burstWindow), paths: newPathSet(maxPaths),
		goatCalls: cfg.GoatcounterCalls, goatRates: newRateTable(cfg.Now(), goatPeriod),
	}
	if cfg.Totals != nil && cfg.Pending != nil {
		s.pending = cfg.Pending
		s.returns = &returner{totals: cfg.Totals, pending: cfg.Pending}
	}
	return s, nil
}

// Register adds the routes to app, whose configuration must come from FiberConfig.
func (s *Server) Register(app *fiber.App) {
	s.registerDialects(app)
	s.registerExplain(app)
}

// registerDialects adds the routes that receive events, which are also those that can be explained.
func (s *Server) registerDialects(app *fiber.App) {
	s.registerPlausible(app)
	s.registerUmami(app)
	s.registerGoatcounter(app)
	s.registerPixel(app)
	s.registerNative(app)
}

// methodNotAllowed answers the methods that an endpoint does not have.
func methodNotAllowed(allow string) fiber.Handler {
	return func(c *fiber.Ctx) error {
		c.Set(fiber.HeaderAllow, allow)
		return fiber.ErrMethodNotAllowed
	}
}

// append journals the frame's events as one payload.
func (s *Server) append(f *frame) (journal.Position, error) {
	// The request's own context would end with the server's shutdown and cut off requests that shutdown waits for.
	pos, err := s.journal.Append(s.deadline.context(s.now()), f.payload, f.rows)
	s.refusals.note(err)
	if err == nil {
		s.pending.note(pos, f.views)
	}
	return pos, err
}
