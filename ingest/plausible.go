package ingest

import (
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fastjson"

	"github.com/pagetally/pagetally/schema"
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
	for _, path := range []string{"/api/health", "/api/system", "/api/system/health/live", "/api/system/health/ready"} {
		app.Get(path, healthy)
	}
	app.Get("/api/error", func(*fiber.Ctx) error { return nil })
}

// plausibleEvent answers Plausible's POST /api/event: one event as a JSON object under any content type, for one or more sites.
func (s *Server) plausibleEvent(c *fiber.Ctx) error {
	by := s.callerOf(c)
	allowOrigin(c)
	if text(c.Request().Header.Peek("X-Debug-Request")) == "true" {
		return c.JSON(fiber.Map{"ip": by.ip.String()})
	}
	w := getWork()
	defer putWork(w)
	body, err := readBody(c, MaxEventBytes, &w.body)
	if err != nil {
		s.metrics.refuse(nil, dialectPlausible, reasonOf(err))
		return err
	}
	fields, bad := parsePlausible(&w.parser, body)
	if bad != nil {
		return s.plausibleBad(c, nil, bad)
	}
	err = s.plausibleTargets(c, w, &by, &fields)
	s.metrics.observe(dialectPlausible, by.received, s.now())
	return err
}

// plausibleTargets sends the event to each of its sites and answers.
func (s *Server) plausibleTargets(c *fiber.Ctx, w *work, by *caller, fields *plausibleFields) error {
	var sites [maxDomains]*Site
	var reasons []Reason
	dropped := 0
	domains, bad := targets(fields)
	if bad != nil {
		return s.plausibleBad(c, nil, bad)
	}
	for domain := range domains {
		h := w.start(by)
		site, reason, bad := s.plausibleHit(w, h, domain, fields)
		if bad != nil {
			return s.plausibleBad(c, site, bad)
		}
		if reason == Accepted {
			var err error
			if reason, err = s.complete(h, &w.scratch); err != nil {
				s.metrics.refuse(site, dialectPlausible, Unavailable)
				return err
			}
		}
		if reason == Accepted && slices.Contains(sites[:w.frame.rows], site) {
			continue // named twice, counted once
		}
		if reason == Accepted && w.frame.rows == maxDomains {
			return s.plausibleBad(c, nil, &fieldError{"domain", "names too many sites", BadField})
		}
		if reason != Accepted {
			s.metrics.refuse(site, dialectPlausible, reason)
			if !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
			dropped++
			continue
		}
		sites[w.frame.rows] = site
		w.frame.add(&h.event)
	}
	if dropped > 0 {
		setDropped(c, dropped, reasons)
	}
	if w.frame.rows > 0 {
		if _, err := s.append(&w.frame); err != nil {
			for _, site := range sites[:w.frame.rows] {
				s.metrics.refuse(site, dialectPlausible, Unavailable)
			}
			return err
		}
	}
	for _, site := range sites[:w.frame.rows] {
		s.metrics.accept(site, dialectPlausible)
	}
	c.Status(fiber.StatusAccepted)
	return c.SendString("ok")
}

func setDropped(c *fiber.Ctx, n int, reasons []Reason) {
	c.Response().Header.Set(HeaderDropped, itoa(n))
	list := make([]string, len(reasons))
	for i, r := range reasons {
		list[i] = string(r)
	}
	c.Response().Header.Set(HeaderReason, strings.Join(list, ", "))
}

// plausibleBad answers a mistake of the sender.
func (s *Server) plausibleBad(c *fiber.Ctx, site *Site, bad *fieldError) error {
	s.metrics.refuse(site, dialectPlausible, bad.reason)
	c.Set(HeaderReason, string(bad.reason))
	return c.Status(fiber.StatusBadRequest).JSON(fiber.Map{"errors": fiber.Map{bad.field: []string{bad.message}}})
}

// plausibleFields are the keys of the body that mean something; the rest are ignored.
type plausibleFields struct {
	name, url, domain, referrer, props, hash, interactive *fastjson.Value
	scroll, engaged                                       *fastjson.Value
	id, title, ts                                         *fastjson.Value // of our own tracker
}

func parsePlausible(p *fastjson.Parser, body []byte) (f plausibleFields, bad *fieldError) {
	v, err := p.ParseBytes(body)
	if err != nil {
		return f, &fieldError{"request", "Unable to parse request body as json", BadRequest}
	}
	object, err := v.Object()
	if err != nil {
		return f, &fieldError{"request", "must be a JSON object", BadRequest}
	}
	var long plausibleFields
	var m, meta, props *fastjson.Value
	object.Visit(func(key []byte, v *fastjson.Value) {
		switch text(key) {
		case "n":
			f.name = v
		case "name":
			long.name = v
		case "u":
			f.url = v
		case "url":
			long.url = v
		case "d":
			f.domain = v
		case "domain":
			long.domain = v
		case "r":
			f.referrer = v
		case "referrer":
			long.referrer = v
		case "m":
			m = v
		case "meta":
			meta = v
		case "p":
			f.props = v
		case "props":
			props = v
		case "h":
			f.hash = v
		case "hashMode":
			long.hash = v
		case "i":
			f.interactive = v
		case "interactive":
			long.interactive = v
		case "sd":
			f.scroll = v
		case "e":
			f.engaged = v
		case "id":
			f.id = v
		case "title":
			f.title = v
		case "ts":
			f.ts = v
		}
	})
	f.name, f.url, f.domain = firstOf(f.name, long.name), firstOf(f.url, long.url), firstOf(f.domain, long.domain)
	f.referrer, f.hash = firstOf(f.referrer, long.referrer), firstOf(f.hash, long.hash)
	f.interactive = firstOf(f.interactive, long.interactive)
	f.props = firstOf(m, meta, f.props, props)
	return f, nil
}

// firstOf is the first value that is there.
func firstOf(values ...*fastjson.Value) *fastjson.Value {
	for _, v := range values {
		if v != nil && v.Type() != fastjson.TypeNull {
			return v
		}
	}
	return nil
}

// targets yields the names of the sites that the event is for; one empty name stands for the site of the page's host.
func targets(f *plausibleFields) (func(yield func(string) bool), *fieldError) {
	list, ok := stringOf(f.domain)
	if !ok {
		return nil, &fieldError{"domain", "is invalid", BadField}
	}
	if f.domain != nil && strings.Trim(list, " ,\t") == "" {
		return nil, &fieldError{"domain", "can't be blank", BadField}
	}
	if strings.Count(list, ",") > 2*maxDomains {
		return nil, &fieldError{"domain", "names too many sites", BadField}
	}
	return func(yield func(string) bool) {
		if f.domain == nil {
			yield("")
			return
		}
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); name != "" && !yield(name) {
				return
			}
		}
	}, nil
}

// plausibleHit fills h for the site that domain names.
func (s *Server) plausibleHit(w *work, h *hit, domain string, f *plausibleFields) (site *Site, reason Reason, bad *fieldError) {
	if bad := h.plausibleURL(f); bad != nil {
		return nil, Accepted, bad
	}
	var ok bool
	if domain != "" {
		site, ok = s.sites.Lookup(domain)
	} else {
		site, ok = s.sites.OfHost(canonicalHost(h.url.Host))
	}
	if bad := h.plausibleName(f); bad != nil {
		return site, Accepted, bad
	}
	if bad := w.plausibleProps(f); bad != nil {
		return site, Accepted, bad
	}
	if bad := h.plausibleRest(f); bad != nil {
		return site, Accepted, bad
	}
	if !ok {
		return nil, UnknownSite, nil
	}
	h.site, h.event.Site, h.event.Props = site, site.Domain, w.props
	return site, Accepted, nil
}

func (h *hit) plausibleURL(f *plausibleFields) *fieldError {
	raw, ok := stringOf(f.url)
	raw = strings.TrimSpace(raw)
	switch {
	case !ok:
		return &fieldError{"url", "is invalid", BadField}
	case raw == "":
		return &fieldError{"url", "is required", BadField}
	}
	h.url = schema.SplitURL(raw)
	if h.url.Scheme == "" {
		return nil
	}
	if !isHTTP(h.url.Scheme) {
		return &fieldError{"url", "scheme is not http or https", Scheme}
	}
	if h.url.Host == "" {
		return &fieldError{"url", "has no host", BadField}
	}
	return nil
}

func (h *hit) plausibleName(f *plausibleFields) *fieldError {
	name := ""
	if f.name != nil && (f.name.Type() == fastjson.TypeString || f.name.Type() == fastjson.TypeNumber) {
		name, _ = scalarText(f.name)
		name = cleanText(strings.TrimSpace(name), 4*maxName+1)
	}
	switch {
	case name == "":
		return &fieldError{"event_name", "can't be blank", BadField}
	case longerThan(name, maxName):
		return &fieldError{"event_name", "should be at most 120 character(s)", BadField}
	}
	h.event.Name = name
	if name == schema.Engagement {
		return h.plausibleEngagement(f)
	}
	return nil
}

// plausibleEngagement reads scroll depth (per cent) and engaged time (ms), of which a ping needs one.
func (h *hit) plausibleEngagement(f *plausibleFields) *fieldError {
	const tooLong = 30 * dayMillis
	if f.scroll != nil {
		if depth, err := f.scroll.Float64(); err == nil && depth >= 0 {
			h.event.Scroll = uint8(min(depth, 100))
		}
	}
	engaged := false
	if f.engaged != nil {
		if ms, err := f.engaged.Float64(); err == nil && ms >= 0 && ms < float64(tooLong) {
			h.event.EngagedMS, engaged = uint32(ms), true
		}
	}
	if h.event.Scroll == schema.NoScroll && !engaged {
		return &fieldError{"event_name", "engagement needs scroll depth or engaged time", BadField}
	}
	return nil
}

func (w *work) plausibleProps(f *plausibleFields) *fieldError {
	props := f.props
	if props == nil {
		return nil
	}
	if props.Type() == fastjson.TypeString {
		// Some senders encode the object twice. The inner one lives as long as the strings that point into it.
		inner, err := fastjson.ParseBytes(props.GetStringBytes())
		if err != nil {
			return &fieldError{"props", "must be a map", BadField}
		}
		props = inner
	}
	var problem string
	if w.props, problem = appendProps(w.props, props); problem != "" {
		return &fieldError{"props", problem, BadField}
	}
	return nil
}

func (h *hit) plausibleRest(f *plausibleFields) *fieldError {
	var ok bool
	if h.referrer, ok = stringOf(f.referrer); !ok {
		return &fieldError{"referrer", "is invalid", BadField}
	}
	if title, ok := stringOf(f.title); ok {
		h.event.Title = cleanText(title, MaxTextBytes)
	}
	id, ok := idOf(f.id)
	if !ok {
		return &fieldError{"id", "must be text of 1 to 256 bytes", BadField}
	}
	h.event.EventID = id
	h.hash = isTrue(f.hash)
	if f.interactive != nil && f.interactive.Type() == fastjson.TypeFalse {
		h.event.Flags |= schema.FlagNonInteractive
	}
	setUnkeyedTime(&h.event, f.ts)
	return nil
}

// idOf reads an event's id; none is an empty one.
func idOf(v *fastjson.Value) (id string, ok bool) {
	if v == nil || v.Type() == fastjson.TypeNull {
		return "", true
	}
	id, ok = scalarText(v)
	return id, ok && id != "" && len(id) <= maxEventID && isClean(id)
}

// isTrue reads a switch that some senders write as 1 and some as true.
func isTrue(v *fastjson.Value) bool {
	if v == nil {
		return false
	}
	n, err := v.Int()
	return v.Type() == fastjson.TypeTrue || err == nil && n == 1
}
