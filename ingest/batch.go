package ingest

import (
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/pagetally/pagetally/ingest/journal"
)

// batch is one request to /v1/events on its way.
type batch struct {
	server *Server
	by     *caller
	rights rights
	work   *work

	idempotent bool
	idemKey    [32]byte

	counts   bool      // are to be returned
	counted  []counted // the accepted events, if so
	sites    []*Site   // of the accepted events
	errors   []itemError
	bad      int
	dropped  []Reason // of filtered events
	position journal.Position
}

func (b *batch) useIdempotencyKey(c *fiber.Ctx, body []byte) (forget func(), err error) {
	key := text(c.Request().Header.Peek("Idempotency-Key"))
	if key == "" {
		return func() {}, nil
	}
	if len(key) > maxIdempotencyKey || !isClean(key) {
		return nil, badRequest("Idempotency-Key", "must be text of at most 255 bytes")
	}
	b.idempotent, b.idemKey = true, idempotencyID(b.rights.key.ID, key)
	return b.server.idempotency.use(b.idemKey, body)
}

// read takes the items in turn: each becomes a row of the frame or an error of its own. The error returned is the server's.
func (b *batch) read(items [][]byte) error {
	b.errors = []itemError{} // an empty list in JSON, not null
	for i, item := range items {
		h := b.work.start(b.by)
		problem, err := b.item(h, i, item)
		if err != nil {
			return err
		}
		if problem != nil {
			problem.Index = i
			b.refuse(h.site, *problem)
			continue
		}
		b.work.frame.add(&h.event)
		b.sites = append(b.sites, h.site)
		if b.counts {
			b.counted = append(b.counted, counted{i, page{h.site.Domain, strings.Clone(h.event.PathKey)}})
		}
	}
	return nil
}

func (b *batch) refuse(site *Site, problem itemError) {
	b.server.metrics.refuse(site, dialectNative, problem.Reason)
	b.errors = append(b.errors, problem)
	if problem.Reason == RateLimited {
		return
	}
	if !problem.Reason.filtered() {
		b.bad++
		return
	}
	if !slices.Contains(b.dropped, problem.Reason) {
		b.dropped = append(b.dropped, problem.Reason)
	}
}

// item makes h of one item.
func (b *batch) item(h *hit, index int, item []byte) (*itemError, error) {
	if len(item) > MaxEventBytes {
		return &itemError{Reason: TooLarge, Message: "is larger than 64 KiB"}, nil
	}
	f, problem := parseNative(&b.work.parser, item)
	if problem == nil {
		problem = b.fill(h, &f)
	}
	if problem != nil {
		return problem, nil
	}
	if h.event.EventID == "" && b.idempotent {
		h.event.EventID = idemID(b.idemKey, index)
	}
	reason, err := b.server.complete(h, &b.work.scratch)
	if err != nil {
		return nil, err
	}
	if reason != Accepted {
		return &itemError{Field: fieldOf(reason), Reason: reason}, nil
	}
	return nil, nil
}

// fieldOf names the field that a reason is about.
func fieldOf(r Reason) string {
	switch r {
	case ForeignHost, Scheme, IgnoredHost, IgnoredPath:
		return "url"
	case IgnoredAddress, IgnoredCountry:
		return "ip"
	case UnknownSite, KeySite, ForeignOrigin:
		return "site"
	case NoAgent, Bot:
		return "user_agent"
	case BeyondRetention:
		return "ts"
	}
	return ""
}

var errTooManyEvents = &apiError{Status: fiber.StatusTooManyRequests, Code: string(RateLimited), Message: "too many events, try again later"}

var errAllBad = &apiError{Status: fiber.StatusBadRequest, Code: "no_valid_item", Message: "no item can be counted, see errors"}

// store journals the accepted events, all or none, and says so.
func (b *batch) store() (nativeReply, error) {
	reply := nativeReply{Accepted: b.work.frame.rows, Errors: b.errors}
	if reply.Accepted == 0 {
		switch {
		case b.by.wait > 0:
			reply.Error = errTooManyEvents
		case b.bad == len(b.errors):
			reply.Error = errAllBad
		}
		return reply, nil
	}
	s := b.server
	pos, err := s.append(&b.work.frame)
	if err != nil {
		return nativeReply{}, err
	}
	for _, site := range b.sites {
		s.metrics.accept(site, dialectNative)
	}
	b.position = pos
	reply.Receipt = Receipt{Node: s.node, Segment: pos.Segment, First: pos.Index, Rows: reply.Accepted}.String()
	return reply, nil
}
