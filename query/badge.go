package query

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gofiber/fiber/v2"
)

// BadgeSites knows which sites show their counts as badges.
type BadgeSites interface {
	// OnlyBadgeSite is the one site that shows badges; false when none does, or several do.
	OnlyBadgeSite() (domain string, ok bool)
}

// A badge is the number of views of a page, or of the whole site, for anyone to see: GET /badge/PATH.json, .svg or .png. A site
// says that its numbers may be shown so; whether another one exists cannot be told from the answer.

// badgeTotal is the path that stands for the whole site. A page's address may begin with a slash, so no page is hidden by it.
const badgeTotal = "TOTAL"

// badgeParams are the parameters of a badge.
var badgeParams = []string{"site", "from", "to", "period", "label", "color", "short"}

// maxLabel bounds a badge's label, in characters.
const maxLabel = 64

var errNoBadge = &httpError{status: fiber.StatusNotFound, Code: "not_found", Message: "there is no such badge"}

// badgeRequest is a checked request for a badge.
type badgeRequest struct {
	format string // "json", "svg" or "png"
	count  publicCount
	label  string
	color  string
	short  bool
}

// BadgeResult is a badge as JSON.
type BadgeResult struct {
	Site  string `json:"site"`
	Path  string `json:"path,omitempty"` // none: the whole site
	Views int64  `json:"views"`
	AsOf  string `json:"as_of"`
}

func (s *Server) badge(c *fiber.Ctx) error {
	start := s.cfg.Now()
	allowEmbedding(c)
	contentType, body, err := func() (string, []byte, error) {
		b, err := s.readBadge(c, start)
		if err != nil {
			return "", nil, err
		}
		count, err := s.public.get(c.UserContext(), b.count)
		if err != nil {
			return "", nil, err
		}
		return b.draw(count)
	}()
	if err != nil {
		return s.reply(c, "badge", start, nil, err)
	}
	s.metrics.observe("badge", "ok", s.cfg.Now().Sub(start))
	return sendPublic(c, fiber.StatusOK, contentType, body)
}

// readBadge looks at the site before anything else, so that a site without badges answers every request alike.
func (s *Server) readBadge(c *fiber.Ctx, now time.Time) (badgeRequest, error) {
	values := queryValues(c)
	name, format, known := cutFormat(publicName(c, "/badge/"), "json", "svg", "png")
	site, ok := s.badgeSite(values.Get("site"))
	if !ok || !known {
		return badgeRequest{}, errNoBadge
	}
	p := parser{values: values}
	p.checkNames("a badge", badgeParams)
	b := badgeRequest{
		format: format, label: p.label(), short: p.word("short", "0", "0", "1") == "1",
		color: badgeColors[p.word("color", defaultBadgeColor, badgeColorNames()...)],
	}
	if p.err != nil {
		return b, p.err
	}
	var err error
	b.count, err = s.publicCount(site, pageNamed(name), Views, values, now)
	return b, err
}

// badgeSite finds the site whose numbers are asked for, if they may be shown.
func (s *Server) badgeSite(domain string) (Site, bool) {
	if domain == "" {
		if s.cfg.Badges == nil {
			return Site{}, false
		}
		var ok bool
		if domain, ok = s.cfg.Badges.OnlyBadgeSite(); !ok {
			return Site{}, false
		}
	}
	site, ok := s.cfg.Sites.ReadSite(domain)
	return site, ok && site.Badge
}

// publicName is what stands behind prefix in the request's address, as it was sent.
func publicName(c *fiber.Ctx, prefix string) string {
	path := string(c.Context().URI().PathOriginal())
	return path[min(len(prefix), len(path)):]
}

// cutFormat splits the extension off a name.
func cutFormat(name string, formats ...string) (page, format string, known bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 || !slices.Contains(formats, name[i+1:]) {
		return name, "", false
	}
	return name[:i], name[i+1:], true
}

// pageNamed is the path that a name in an address means: "blog/x" and "/blog/x" are /blog/x, and so is "%2Fblog%2Fx", which is
// what scripts make of a path that is to fit between two slashes. The empty path stands for the whole site.
func pageNamed(name string) string {
	if name == badgeTotal {
		return ""
	}
	if len(name) >= 3 && strings.EqualFold(name[:3], "%2F") {
		if whole, err := url.PathUnescape(name); err == nil {
			name = whole
		}
	}
	if !strings.HasPrefix(name, "/") {
		name = "/" + name
	}
	return name
}

func (p *parser) label() string {
	label := p.values.Get("label")
	switch {
	case label == "":
		return "views"
	case !utf8.ValidString(label) || strings.ContainsFunc(label, unicode.IsControl):
		p.fail("label", "is no plain text")
	case utf8.RuneCountInString(label) > maxLabel:
		p.fail("label", "is longer than %d characters", maxLabel)
	}
	return label
}

func (b *badgeRequest) draw(count CountResult) (contentType string, body []byte, err error) {
	views, _ := count.Get(Views)
	number := groupDigits(views, ",")
	if b.short {
		number = shortNumber(views)
	}
	switch b.format {
	case "svg":
		return "image/svg+xml", badgeSVG(b.label, number, b.color), nil
	case "png":
		body, err = badgePNG(b.label, number, b.color)
		return "image/png", body, err
	}
	body, err = json.Marshal(BadgeResult{Site: count.Site, Path: count.Path, Views: views, AsOf: count.Meta.AsOf})
	return fiber.MIMEApplicationJSON, body, err
}

// groupDigits writes n with separator between its thousands.
func groupDigits(n int64, separator string) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = digits[:1], digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + separator + digits[i:]
	}
	return sign + digits
}

// shortNumber writes n in at most three digits and a letter, rounded towards zero: 1.2k never stands for less than 1,200.
func shortNumber(n int64) string {
	sign, rest := "", uint64(n)
	if n < 0 {
		sign, rest = "-", -uint64(n)
	}
	const units = "kMGTPE"
	if rest < 1000 {
		return sign + strconv.FormatUint(rest, 10)
	}
	unit := 0
	for rest >= 1_000_000 {
		rest /= 1000
		unit++
	}
	whole, tenth := rest/1000, rest%1000/100
	text := strconv.FormatUint(whole, 10)
	if whole < 100 && tenth > 0 {
		text += "." + strconv.FormatUint(tenth, 10)
	}
	return sign + text + units[unit:unit+1]
}
