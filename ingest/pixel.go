package ingest

import (
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"

	"github.com/pagetally/pagetally/schema"
)

func (s *Server) registerPixel(app *fiber.App) {
	app.Head("/pixel.gif", func(c *fiber.Ctx) error { return sendGIF(c, fiber.StatusOK, Accepted) }) // a look at the headers is no view
	app.Add(fiber.MethodGet, "/pixel.gif", s.pixel)
	app.All("/pixel.gif", methodNotAllowed("GET, HEAD"))
}

// pixel answers GET /pixel.gif, which counts a view where no script runs. Its parameters are site, url or path, name, title and
// referrer; without url and path the page is the one that shows the image, its Referer. It is always answered with the image.
func (s *Server) pixel(c *fiber.Ctx) error {
	w := getWork()
	defer putWork(w)
	var by caller
	s.readCaller(c, &by)
	h := w.start(&by)
	reason := s.pixelHit(h, c.Context().QueryArgs(), text(c.Request().Header.Referer()))
	var err error
	if reason == Accepted {
		reason, err = s.countOne(w, h, dialectPixel)
	} else {
		s.metrics.refuse(h.site, dialectPixel, reason)
	}
	s.metrics.observe(dialectPixel, by.received, s.now())
	switch {
	case err != nil:
		retryLater(c, err)
	case reason == RateLimited:
		setRetryAfter(c, by.wait)
	}
	return sendGIF(c, statusOf(reason), reason)
}

// statusOf is the status of an image that may not have been counted.
func statusOf(reason Reason) int {
	switch {
	case reason == Accepted || reason.filtered():
		return fiber.StatusOK
	case reason == Unavailable:
		return fiber.StatusServiceUnavailable
	case reason == RateLimited:
		return fiber.StatusTooManyRequests
	}
	return fiber.StatusBadRequest
}

// pixelHit fills h. The referer of a page that shows the image is believed for what the parameters leave out and for no more: a feed
// reader that shows it is not the page.
func (s *Server) pixelHit(h *hit, args *fasthttp.Args, referer string) Reason {
	page := schema.SplitURL(referer)
	raw, path := argText(args, "url"), argText(args, "path")
	switch {
	case raw != "":
		h.url = schema.SplitURL(raw)
	case path != "":
		h.url = schema.SplitURL(path)
	default:
		h.url = page
	}
	switch {
	case h.url == schema.URLParts{}, raw != "" && h.url.Scheme == "", h.url.Scheme != "" && h.url.Host == "":
		return BadField
	case h.url.Scheme != "":
		page = h.url
	}
	host := canonicalHost(page.Host)
	site := argText(args, "site")
	h.site, _ = s.sites.ofPage(site, host)
	h.byHost = site == ""
	if h.site != nil && h.url.Scheme == "" && h.site.HasHost(host) {
		h.url.Scheme, h.url.Host = page.Scheme, page.Host
	}
	return pixelTexts(h, args)
}

func pixelTexts(h *hit, args *fasthttp.Args) Reason {
	if args.Has("name") {
		name := cleanText(argText(args, "name"), 4*maxName+1)
		if name == "" || longerThan(name, maxName) || name == schema.Engagement {
			return BadField
		}
		h.event.Name = name
	}
	h.event.Title = cleanText(argText(args, "title"), MaxTextBytes)
	h.referrer = argText(args, "referrer")
	return Accepted
}

// argText is a parameter of the query, decoded, or empty.
func argText(args *fasthttp.Args, name string) string {
	return strings.TrimSpace(text(args.Peek(name)))
}
