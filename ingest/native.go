package ingest

import (
	"context"
	"net/netip"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// itemError says what is wrong with one item of a batch.
type itemError struct {
	Index   int    `json:"index"`
	Field   string `json:"field"`
	Reason  Reason `json:"reason"`
	Message string `json:"message,omitempty"`
}

// nativeReply is the answer of POST /v1/events.
type nativeReply struct {
	Error    *apiError   `json:"error,omitempty"` // when every item is bad
	Accepted int         `json:"accepted"`
	Receipt  string      `json:"receipt,omitempty"`
	Errors   []itemError `json:"errors"`
	Counts   []itemCount `json:"counts,omitzero"` // when asked for
	Meta     *countMeta  `json:"meta,omitempty"`  // of the counts
}

func (s *Server) registerNative(app *fiber.App) {
	app.Options("/v1/events", preflight("authorization, content-type, content-encoding, idempotency-key"))
	app.Post("/v1/events", s.nativeEvents)
	app.All("/v1/events", methodNotAllowed("POST, OPTIONS"))
	app.Get("/v1/receipts/:id", s.receipt)
}

// nativeEvents answers POST /v1/events: an object, an array or NDJSON.
func (s *Server) nativeEvents(c *fiber.Ctx) error {
	var by caller
	s.readCaller(c, &by)
	allowOrigin(c)
	err := s.nativeRequest(c, &by)
	if err != nil {
		s.metrics.refuse(nil, dialectNative, reasonOf(err))
	}
	s.metrics.observe(dialectNative, by.received, s.now())
	return err
}

func (s *Server) nativeRequest(c *fiber.Ctx, by *caller) error {
	rights, err := s.rightsOf(c, by)
	if err != nil {
		return err
	}
	ack, err := ackOf(c)
	if err != nil {
		return err
	}
	counts, err := returnOf(c)
	if err != nil {
		return err
	}
	w := getWork()
	defer putWork(w)
	body, err := readBody(c, MaxBatchBytes, &w.body)
	if err != nil {
		return err
	}
	items, err := splitItems(body, isNDJSON(c.Request().Header.ContentType()), nil)
	if err != nil {
		return err
	}
	b := batch{server: s, by: by, rights: rights, work: w, counts: counts}
	if counts && s.pending != nil {
		s.pending.ask()
	}
	forget, err := b.useIdempotencyKey(c, body)
	if err != nil {
		return err
	}
	if err := b.read(items); err != nil {
		forget()
		return err
	}
	reply, err := b.store()
	if err != nil {
		forget()
		return err
	}
	return s.answerNative(c, &b, reply, ack)
}

// answerNative waits for delivery if the caller asked for it and writes the reply.
func (s *Server) answerNative(c *fiber.Ctx, b *batch, reply nativeReply, ack bool) error {
	if len(b.dropped) > 0 {
		c.Set(HeaderReason, joinReasons(b.dropped))
	}
	if b.by.wait > 0 {
		setRetryAfter(c, b.by.wait) // also when only some items are to be sent again
	}
	status := fiber.StatusAccepted
	switch {
	case reply.Error != nil:
		status = reply.Error.Status
	case ack && reply.Accepted > 0 && s.waitStored(b):
		status = fiber.StatusOK
	}
	if b.counts {
		s.returnCounts(b, &reply)
	}
	return c.Status(status).JSON(reply)
}

// waitStored reports whether the batch's events were stored before the deadline.
func (s *Server) waitStored(b *batch) bool {
	if s.delivery == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.ackTimeout)
	defer cancel()
	return s.delivery.WaitStored(ctx, b.position.Segment) == nil
}

// ackOf reads ?ack=stored.
func ackOf(c *fiber.Ctx) (bool, error) {
	switch c.Query("ack") {
	case "", "journal":
		return false, nil
	case "stored":
		return true, nil
	}
	return false, badRequest("ack", "want stored or journal")
}

// rights are what a caller may say.
type rights struct {
	key   Key
	keyed bool // may set ts, ip, user_agent and n
	// local callers have the rights of a key; what they leave out is taken from the connection, as for a browser.
	local bool
}

var (
	errBadKey  = &apiError{Status: fiber.StatusUnauthorized, Code: "bad_key", Field: "Authorization", Message: "unknown or revoked key"}
	errNoScope = &apiError{Status: fiber.StatusForbidden, Code: "forbidden", Field: "Authorization", Message: "key lacks the scope ingest"}
)

func (s *Server) rightsOf(c *fiber.Ctx, by *caller) (rights, error) {
	if auth := text(c.Request().Header.Peek(fiber.HeaderAuthorization)); auth != "" {
		secret, ok := cutBearer(auth)
		if !ok {
			return rights{}, &apiError{Status: fiber.StatusUnauthorized, Code: "bad_key", Field: "Authorization", Message: "want Bearer and a key"}
		}
		return s.rightsOfKey(secret)
	}
	local := s.loopback && IsLocal(c, s.proxies)
	return rights{keyed: local, local: local}, nil
}

func (s *Server) rightsOfKey(secret string) (rights, error) {
	key, ok := s.keys.Lookup(secret)
	switch {
	case !ok:
		return rights{}, errBadKey
	case !key.Has(ScopeIngest):
		return rights{}, errNoScope
	}
	return rights{key: key, keyed: true}, nil
}

func cutBearer(auth string) (secret string, ok bool) {
	const scheme = "bearer "
	if len(auth) <= len(scheme) || !strings.EqualFold(auth[:len(scheme)], scheme) {
		return "", false
	}
	return strings.TrimSpace(auth[len(scheme):]), true
}

// IsLocal reports whether the request was made on this machine, for this machine: from a loopback address, to a loopback Host,
// through no proxy, and not by a page of another host (which a browser on this machine may have open).
func IsLocal(c *fiber.Ctx, proxies *Proxies) bool {
	header := &c.Request().Header
	for _, name := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", proxies.Header()} {
		if len(header.Peek(name)) > 0 {
			return false
		}
	}
	if origin := header.Peek(fiber.HeaderOrigin); len(origin) > 0 && !isLoopbackHost(originHost(text(origin))) {
		return false
	}
	return peerOf(c).IsLoopback() && isLoopbackHost(cutPort(text(header.Host())))
}

func originHost(origin string) string {
	_, host, _ := strings.Cut(origin, "://")
	return cutPort(host)
}

func isLoopbackHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

// receipt answers GET /v1/receipts/ID. A receipt tells nothing but where its rows are, so it needs no key.
func (s *Server) receipt(c *fiber.Ctx) error {
	r, err := ParseReceipt(c.Params("id"))
	if err != nil {
		return badRequest("id", "is not a receipt")
	}
	state := "pending"
	if s.delivery != nil {
		if state, err = s.delivery.Status(s.deadline.context(s.now()), r.Node, r.Segment, r.First, r.Rows); err != nil {
			return &apiError{Status: fiber.StatusServiceUnavailable, Code: "unavailable", Message: "receipts cannot be looked up now, try again"}
		}
	}
	status := fiber.StatusOK
	if state == "unknown" {
		status = fiber.StatusNotFound
	}
	return c.Status(status).JSON(fiber.Map{"receipt": r.String(), "state": state, "accepted": r.Rows})
}
