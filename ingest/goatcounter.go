package ingest

import (
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/pagetally/pagetally/schema"
)

// headerGoatcounter is the dialect's header that says why a hit does not count.
const headerGoatcounter = "X-Goatcounter"

// leastBot is the first number by which a script says that it found itself in a program's hands; those below are the server's to find.
const leastBot = 150

func (s *Server) registerGoatcounter(app *fiber.App) {
	app.Options("/count", preflight("content-type"))
	app.Head("/count", func(c *fiber.Ctx) error { return sendGIF(c, fiber.StatusOK, Accepted) }) // a look at the headers is no view
	app.Add(fiber.MethodGet, "/count", s.goatcounterCount)
	app.Post("/count", s.goatcounterCount)
	app.All("/count", methodNotAllowed("GET, HEAD, POST, OPTIONS"))

	app.Options("/api/v0/count", preflight("authorization, content-type, content-encoding"))
	app.Post("/api/v0/count", s.goatcounterHits)
	app.All("/api/v0/count", methodNotAllowed("POST, OPTIONS"))
}

// goatcounterCount answers /count: one hit in the parameters of the query, also by POST, which sendBeacon needs. The site is that of
// the page which sends it, by Origin or else Referer, unless a parameter site names one. It is always answered with an image.
func (s *Server) goatcounterCount(c *fiber.Ctx) error {
	w := getWork()
	defer putWork(w)
	var by caller
	s.readCaller(c, &by)
	h := w.start(&by)
	if c.Method() == fiber.MethodPost {
		allowOrigin(c)
	}
	bad := s.goatcounterHit(h, c.Context().QueryArgs(), text(c.Request().Header.Referer()))
	var reason Reason
	var err error
	if bad == nil {
		reason, err = s.countOne(w, h, dialectGoat)
	} else {
		reason = bad.reason
		s.metrics.refuse(h.site, dialectGoat, reason)
	}
	s.metrics.observe(dialectGoat, by.received, s.now())
	switch {
	case err != nil:
		retryLater(c, err)
	case reason == RateLimited:
		setRetryAfter(c, by.wait)
	}
	c.Context().SetConnectionClose() // as the dialect has it: a page sends one hit and goes idle
	status, why := goatcounterStatus(reason, bad)
	if why != "" {
		c.Set(headerGoatcounter, why)
	}
	return sendGIF(c, status, reason)
}

// goatcounterStatus is the answer to a hit, and why it does not count in the dialect's header; a bot is not told.
func goatcounterStatus(reason Reason, bad *fieldError) (status int, why string) {
	switch {
	case bad != nil && reason != Bot:
		return fiber.StatusBadRequest, bad.field + ": " + bad.message
	case reason == Accepted || reason == Bot || reason == NoAgent || reason == Prefetch:
		return fiber.StatusOK, ""
	case reason.filtered():
		return fiber.StatusAccepted, "ignored because " + string(reason)
	case reason == UnknownSite:
		return fiber.StatusBadRequest, "no site of this server: the page's Origin or Referer, or the parameter site, must name one"
	}
	return statusOf(reason), string(reason)
}

// goatcounterHit fills h.
func (s *Server) goatcounterHit(h *hit, args *fasthttp.Args, referer string) *fieldError {
	page := schema.SplitURL(referer)
	if origin := schema.SplitURL(h.origin); isHTTP(origin.Scheme) {
		page.Scheme, page.Host = origin.Scheme, origin.Host // of which a browser may not lie, while pages may hide the Referer
	}
	site := argText(args, "site")
	h.site, _ = s.sites.ofPage(site, canonicalHost(page.Host))
	h.byHost = site == ""

	g := goatcounterFields{
		path: argText(args, "p"), title: argText(args, "t"), referrer: argText(args, "r"), query: argText(args, "q"), screen: argText(args, "s"),
	}
	var ok1, ok2, ok3 bool
	g.event, ok1 = switchOf(argText(args, "e"))
	g.noSession, ok2 = switchOf(argText(args, "ns"))
	g.bot, ok3 = botOf(argText(args, "b"))
	switch {
	case !ok1:
		return &fieldError{"e", "must be true or false", BadField}
	case !ok2:
		return &fieldError{"ns", "must be true or false", BadField}
	case !ok3:
		return &fieldError{"b", "must be 0 or a number from 150 to 255", BadField}
	}
	if bad := g.fill(h, page); bad != nil {
		if bad.field == "path" {
			bad.field = "p"
		}
		return bad
	}
	return nil
}

// switchOf reads a switch of a form.
func switchOf(s string) (on, ok bool) {
	switch strings.ToLower(s) {
	case "", "0", "f", "false", "off", "no":
		return false, true
	case "1", "t", "true", "on", "yes":
		return true, true
	}
	return false, false
}

func botOf(s string) (int, bool) {
	if s == "" {
		return 0, true
	}
	n, err := strconv.ParseUint(s, 10, 8)
	return int(n), err == nil && (n == 0 || n >= leastBot)
}

// goatcounterFields are what a hit says, in either form.
type goatcounterFields struct {
	path, title, referrer, query, screen string
	event, noSession                     bool
	bot                                  int
}

// fill makes h of the fields. page is the one that sent them, as far as known: its host, and the place of an event.
func (g *goatcounterFields) fill(h *hit, page schema.URLParts) *fieldError {
	switch {
	case g.path == "":
		return &fieldError{"path", "is required", BadField}
	case g.event:
		if bad := h.goatcounterEvent(g.path); bad != nil {
			return bad
		}
		h.url = page
	default:
		h.url = schema.SplitURL(g.path)
		if h.url.Scheme == "" && page.Host != "" {
			h.url.Scheme, h.url.Host = page.Scheme, page.Host
		}
	}
	h.url.Query = joinQueries(h.url.Query, strings.TrimPrefix(g.query, "?"))
	h.event.Title = cleanText(g.title, MaxTextBytes)
	h.referrer = g.referrer
	h.screen, _, _ = strings.Cut(g.screen, ",")
	h.nobody = g.noSession
	if g.bot >= leastBot {
		return &fieldError{"bot", "says that it is one", Bot}
	}
	return nil
}

// goatcounterEvent takes the path of an event for its name, which has no leading slash.
func (h *hit) goatcounterEvent(path string) *fieldError {
	name := cleanText(strings.TrimLeft(path, "/"), MaxTextBytes+1)
	switch {
	case name == "" || len(name) > MaxTextBytes:
		return &fieldError{"path", "must be an event's name of 1 to 2048 bytes", BadField}
	case name == schema.PageView || name == schema.Engagement:
		return &fieldError{"path", "is a reserved event name", BadField}
	}
	h.event.Name = name
	return nil
}

// joinQueries adds to the query of a path what the page's own has besides: the sender may have taken the path from elsewhere, such as
// the canonical link. A parameter that both have counts as the path has it.
func joinQueries(path, page string) string {
	if path == "" {
		return page
	}
	joined := path
	for pair := range strings.SplitSeq(page, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if name != "" && !hasParameter(path, name) {
			joined += "&" + pair
		}
	}
	return joined
}

func hasParameter(query, name string) bool {
	for pair := range strings.SplitSeq(query, "&") {
		if got, _, _ := strings.Cut(pair, "="); got == name {
			return true
		}
	}
	return false
}
