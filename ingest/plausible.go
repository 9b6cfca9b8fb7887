package ingest

import (
	"slices"
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
)

// HeaderDropped is Plausible's header with the number of targets of an event that did not count.
const HeaderDropped = "x-plausible-dropped"

// maxDomains bounds the sites that one event may be sent to.
const maxDomains = 30

// fieldError is a 400 of the dialect: {"errors":{field:[message]}}.
type fieldError struct {
	field, message string
	reason         Reason
}

func (s *Server) registerPlausible(app *fiber.App) {
	app.Options("/api/event", preflight("content-type"))
	app.Post("/api/event", s.plausibleEvent)
	app.All("/api/event", methodNotAllowed("POST, OPTIONS"))
	healthy := func(c *fiber.Ctx) error { return c.JSON(fiber.Map{"status": "ok"}) }
	for _, path := range []string{"/api/health", "/api/system", "/api/system/health/live"} {
		app.Get(path, healthy)
	}
	app.Get("/api/system/health/ready", s.plausibleReady)
	app.Get("/api/error", func(*fiber.Ctx) error { return nil })
}

// plausibleReady answers whether events can be taken: without a salt none has a visitor.
func (s *Server) plausibleReady(c *fiber.Ctx) error {
	if _, err := s.salts.For(dayOf(s.now().UnixMilli(), time.UTC)); err != nil {
		return err
	}
	return c.JSON(fiber.Map{"status": "ok"})
}

// plausibleRequest is one request on its way. It is part of work, so that none of it is allocated anew.
type plausibleRequest struct {
	by      caller
	fields  plausibleFields
	domains []string // that the event is for; one empty name stands for the site of the page's host
	sites   []*Site  // of the events in the frame
	reasons []Reason // of the targets that dropped it
	dropped int
}

func (r *plausibleRequest) reset() {
	clear(r.domains)
	clear(r.sites)
	*r = plausibleRequest{domains: r.domains[:0], sites: r.sites[:0], reasons: r.reasons[:0]}
}

// plausibleEvent answers Plausible's POST /api/event: one event as a JSON object under any content type, for one or more sites.
func (s *Server) plausibleEvent(c *fiber.Ctx) error {
	w := getWork()
	defer putWork(w)
	r := &w.plausible
	s.readCaller(c, &r.by)
	allowOrigin(c)
	if text(c.Request().Header.Peek("X-Debug-Request")) == "true" {
		return c.JSON(fiber.Map{"ip": r.by.ip.String()})
	}
	err := s.plausibleBody(c, w)
	s.metrics.observe(dialectPlausible, r.by.received, s.now())
	return err
}

func (s *Server) plausibleBody(c *fiber.Ctx, w *work) error {
	r := &w.plausible
	body, err := readBody(c, MaxEventBytes, &w.body)
	if err != nil {
		s.metrics.refuse(nil, dialectPlausible, reasonOf(err))
		return err
	}
	bad := r.fields.parse(&w.parser, body)
	if bad == nil {
		r.domains, bad = appendDomains(r.domains, r.fields.domain)
	}
	if bad != nil {
		return s.plausibleBad(c, nil, bad)
	}
	for _, domain := range r.domains {
		site, bad, err := s.plausibleTarget(w, domain)
		switch {
		case bad != nil:
			return s.plausibleBad(c, site, bad)
		case err != nil:
			s.metrics.refuse(site, dialectPlausible, Unavailable)
			return err
		}
	}
	return s.plausibleStore(c, w)
}

// plausibleTarget adds the event to the frame for one site, or notes why that site drops it.
func (s *Server) plausibleTarget(w *work, domain string) (site *Site, bad *fieldError, err error) {
	r := &w.plausible
	h := w.start(&r.by)
	site, bad = s.plausibleHit(w, h, domain)
	if bad != nil {
		return site, bad, nil
	}
	reason := UnknownSite
	if site != nil {
		if slices.ContainsFunc(r.sites, func(other *Site) bool { return other.Domain == site.Domain }) { // settings may change in between
			return site, nil, nil // named twice, counted once
		}
		if reason, err = s.complete(h, &w.scratch); err != nil {
			return site, nil, err
		}
	}
	if reason != Accepted {
		s.metrics.refuse(site, dialectPlausible, reason)
		r.drop(reason)
		return site, nil, nil
	}
	r.sites = append(r.sites, site)
	w.frame.add(&h.event)
	return site, nil, nil
}

func (r *plausibleRequest) drop(reason Reason) {
	r.dropped++
	r.reasons = appendReason(r.reasons, reason)
}

// plausibleStore journals the frame and answers.
func (s *Server) plausibleStore(c *fiber.Ctx, w *work) error {
	r := &w.plausible
	if w.frame.rows > 0 {
		if _, err := s.append(&w.frame); err != nil {
			for _, site := range r.sites {
				s.metrics.refuse(site, dialectPlausible, Unavailable)
			}
			return err
		}
	}
	for _, site := range r.sites {
		s.metrics.accept(site, dialectPlausible)
	}
	if r.dropped > 0 {
		c.Response().Header.Set(HeaderDropped, strconv.Itoa(r.dropped))
		c.Response().Header.Set(HeaderReason, joinReasons(r.reasons))
	}
	if r.by.wait > 0 && w.frame.rows == 0 { // a client that tries again counts nothing twice
		tooMany(c, &r.by)
		return c.JSON(fiber.Map{"errors": fiber.Map{"request": []string{"too many events, try again later"}}})
	}
	c.Status(fiber.StatusAccepted)
	return c.SendString("ok")
}

// plausibleBad answers a mistake of the sender.
func (s *Server) plausibleBad(c *fiber.Ctx, site *Site, bad *fieldError) error {
	s.metrics.refuse(site, dialectPlausible, bad.reason)
	c.Set(HeaderReason, string(bad.reason))
	return c.Status(fiber.StatusBadRequest).JSON(fiber.Map{"errors": fiber.Map{bad.field: []string{bad.message}}})
}
