package query

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"net/url"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
)

// GET /counter/PATH.json, .html, .svg or .png is GoatCounter's visitor counter in its shape: visitors, not views, as text with a
// narrow space between the thousands, an image of 200 by 80 pixels, and 404 with a 0 for a page that nobody saw. The site is
// named by `site`, for GoatCounter knows it by the server's name. Where GoatCounter lets an answer be kept for hours, this one is
// as fresh as a badge.

// goatSpace stands between the thousands: U+202F, narrow and not broken.
const goatSpace = "\u202f"

const (
	goatWidth        = 200
	goatHeight       = 80
	goatHeightAlone  = 60 // without branding
	goatColor        = "#9a15a4"
	goatPaper        = "#ffffff"
	maxGoatStyle     = 2048 // bytes
	goatSizeFor      = 14
	goatSizeViews    = 22
	goatSizeBy       = 12
	goatBaselineFor  = 20
	goatBaselineView = 46
	goatBaselineBy   = 70
)

// goatError is an error in GoatCounter's form.
type goatError struct {
	Error string `json:"error"`
}

// goatRequest is a checked request for a counter.
type goatRequest struct {
	format string
	count  publicCount
	whole  bool // of the whole site
	alone  bool // without branding
	style  string
}

func (s *Server) counter(c *fiber.Ctx) error {
	start := s.cfg.Now()
	allowEmbedding(c)
	err := func() error {
		g, err := s.readGoat(c, start)
		if err != nil {
			return err
		}
		count, err := s.public.get(c.UserContext(), g.count)
		if err != nil {
			return err
		}
		return g.send(c, count, start)
	}()
	if err == nil {
		s.metrics.observe("counter", "ok", s.cfg.Now().Sub(start))
		return nil
	}
	e := toHTTPError(err)
	s.metrics.observe("counter", e.Code, s.cfg.Now().Sub(start))
	c.Set(fiber.HeaderCacheControl, "no-store")
	if e.status >= fiber.StatusInternalServerError {
		s.logFailure("counter", err)
		c.Set(fiber.HeaderRetryAfter, "2")
	}
	return c.Status(e.status).JSON(goatError{e.Message})
}

var (
	errNoCounter     = &httpError{status: fiber.StatusForbidden, Code: "forbidden", Message: "the site does not allow using the visitor counter"}
	errGoatExtension = &httpError{status: fiber.StatusBadRequest, Code: "bad_parameter", Message: "unknown extension: want .json, .html, .svg or .png"}
)

// readGoat ignores parameters that it does not know, as GoatCounter does.
func (s *Server) readGoat(c *fiber.Ctx, now time.Time) (goatRequest, error) {
	values := queryValues(c)
	site, ok := s.badgeSite(values.Get("site"))
	if !ok {
		return goatRequest{}, errNoCounter
	}
	name, format, known := cutFormat(publicName(c, "/counter/"), "json", "html", "svg", "png")
	if !known {
		return goatRequest{}, errGoatExtension
	}
	style := values.Get("style")
	if len(style) > maxGoatStyle || strings.ContainsRune(style, '<') {
		return goatRequest{}, badParam("style", "is no style sheet of at most %d bytes", maxGoatStyle)
	}
	page := pageNamed(name)
	g := goatRequest{format: format, whole: page == "", alone: values.Get("no_branding") != "", style: style}
	var err error
	g.count, err = s.publicCount(site, page, Visitors, goatRange(values, site, now), now)
	return g, err
}

// goatRange turns start and end, dates or the words for spans that end now, into the parameters of a range.
func goatRange(values url.Values, site Site, now time.Time) url.Values {
	start, end := values.Get("start"), values.Get("end")
	if start == "" && end == "" {
		return nil
	}
	days, spoken := map[string]int{"week": 7, "month": 30, "year": 365}[start]
	switch {
	case spoken:
		loc := site.Zone
		if loc == nil {
			loc = time.UTC
		}
		start = dayOf(now, loc).AddDate(0, 0, -days).Format(time.DateOnly)
	case start == "":
		start = "1970-01-01"
	}
	return url.Values{"from": {start}, "to": {end}}
}

func (g *goatRequest) send(c *fiber.Ctx, count CountResult, now time.Time) error {
	visitors, _ := count.Get(Visitors)
	status := fiber.StatusOK
	if visitors == 0 && !g.whole {
		status = fiber.StatusNotFound
	}
	contentType, body, err := g.draw(groupDigits(visitors, goatSpace))
	if err != nil {
		return err
	}
	c.Set(fiber.HeaderExpires, now.Add(publicMaxAge).UTC().Format(time.RFC1123Z))
	return sendPublic(c, status, contentType, body)
}

func (g *goatRequest) draw(number string) (contentType string, body []byte, err error) {
	switch g.format {
	case "html":
		return fiber.MIMETextHTMLCharsetUTF8, g.html(number), nil
	case "svg":
		return "image/svg+xml", g.svg(number), nil
	case "png":
		body, err = g.png(number)
		return "image/png", body, err
	}
	body, err = json.Marshal(map[string]string{"count": number, "count_unique": number})
	return fiber.MIMEApplicationJSON, body, err
}

func (g *goatRequest) height() int {
	if g.alone {
		return goatHeightAlone
	}
	return goatHeight
}

// title is the line above the number.
func (g *goatRequest) title() string {
	if g.whole {
		return "Views for this site:"
	}
	return "Views for this page:"
}

const goatBy = "stats by Pagetally"

// html has the ids that a style sheet for GoatCounter's counter names.
func (g *goatRequest) html(number string) []byte {
	by := ""
	if !g.alone {
		by = `<br><span id="gcvc-by" style="font-size:12px">` + goatBy + `</span>`
	}
	return fmt.Appendf(nil, `<!DOCTYPE html><meta charset="utf-8"><style>body{margin:0}%s</style>`+
		`<div id="gcvc-border" style="box-sizing:border-box;width:%dpx;height:%dpx;border:2px solid %s;border-radius:2px;background:%s;color:%s;text-align:center;font:bold 14px/1.5 Arial,Helvetica,sans-serif">`+
		`<span id="gcvc-for">%s</span><br><span id="gcvc-views" style="font-size:22px;line-height:1.2">%s</span>%s</div>`+"\n",
		g.style, goatWidth, g.height(), goatColor, goatPaper, goatColor, g.title(), number, by)
}

func (g *goatRequest) svg(number string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" version="1.1" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" id="gcvc-counter" role="img"><title>%s %s</title>`,
		goatWidth, g.height(), g.title(), number)
	fmt.Fprintf(&b, `<style>text{fill:%s;font:bold %dpx Arial,Helvetica,sans-serif;text-anchor:middle}#gcvc-border{fill:%s;stroke:%s;stroke-width:2px}#gcvc-views{font-size:%dpx}#gcvc-by{font-size:%dpx}%s</style>`,
		goatColor, goatSizeFor, goatPaper, goatColor, goatSizeViews, goatSizeBy, escapeXML(g.style))
	fmt.Fprintf(&b, `<rect id="gcvc-border" x="1" y="1" width="%d" height="%d" rx="2"/><text id="gcvc-for" x="50%%" y="%d">%s</text><text id="gcvc-views" x="50%%" y="%d">%s</text>`,
		goatWidth-2, g.height()-2, goatBaselineFor, g.title(), goatBaselineView, number)
	if !g.alone {
		fmt.Fprintf(&b, `<text id="gcvc-by" x="50%%" y="%d">%s</text>`, goatBaselineBy, goatBy)
	}
	b.WriteString("</svg>")
	return b.Bytes()
}

func (g *goatRequest) png(number string) ([]byte, error) {
	bounds := image.Rect(0, 0, goatWidth, g.height())
	img := image.NewNRGBA(bounds)
	fillRect(img, bounds, goatColor)
	fillRect(img, bounds.Inset(2), goatPaper)
	centre := func(text string, baseline, size int) {
		drawText(img, text, (goatWidth-textWidth(text, size))/2, baseline, size, goatColor)
	}
	centre(g.title(), goatBaselineFor, goatSizeFor)
	centre(strings.ReplaceAll(number, goatSpace, " "), goatBaselineView, goatSizeViews) // the font has no narrow one
	if !g.alone {
		centre(goatBy, goatBaselineBy, goatSizeBy)
	}
	return encodePNG(img)
}
