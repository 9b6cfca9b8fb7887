package query

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/gofiber/fiber/v2"
	lru "github.com/hashicorp/golang-lru/v2"
)

// A badge is a page's views, or a site's, to be shown on pages of anybody: as a number, or as a picture. Only sites whose settings say
// so have badges; of all others nothing is told, not even that they exist.
//
//	GET /badge/PATH.json|.svg|.png?site=DOMAIN      PATH as in the page's address; TOTAL is the whole site
//	GET /counter/PATH.json|.svg|.png?site=DOMAIN    in GoatCounter's shape; without site the host that was asked
//
// Both take from, to, period and tz as other reads do, by default all there is; badges also label.

const (
	// badgeFresh is how long a count is shown again without asking.
	badgeFresh = 500 * time.Millisecond
	badgesKept = 4096
	badgeTotal = "TOTAL"
	badgeLabel = 40 // runes of a label at most
)

// badges remembers the counts that were shown last, and lets those who ask for the same at once ask once.
type badges struct {
	mu   sync.Mutex
	kept *lru.Cache[string, *badgeCount]
}

// badgeCount is a count with the moment at which it was asked for.
type badgeCount struct {
	mu    sync.Mutex
	at    time.Time
	count CountResult
}

func newBadges() *badges {
	kept, err := lru.New[string, *badgeCount](badgesKept)
	if err != nil {
		panic(err) // the size is a constant
	}
	return &badges{kept: kept}
}

// get returns the count under key, asking for it when it is not fresh.
func (b *badges) get(key string, ask func() (CountResult, error)) (CountResult, error) {
	b.mu.Lock()
	kept, ok := b.kept.Get(key)
	if !ok {
		kept = &badgeCount{}
		b.kept.Add(key, kept)
	}
	b.mu.Unlock()
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if time.Since(kept.at) > badgeFresh {
		fresh, err := ask()
		if err != nil {
			return CountResult{}, err
		}
		kept.count, kept.at = fresh, time.Now()
	}
	return kept.count, nil
}

// badgeRequest is what a badge's address says.
type badgeRequest struct {
	Request
	format string
	label  string
}

var errNoBadge = &httpError{status: fiber.StatusNotFound, Code: "not_found", Message: "no such badge: is `badge` on for the site, and the site known?"}

// badgeTypes are the formats with their content types.
var badgeTypes = map[string]string{"json": fiber.MIMEApplicationJSONCharsetUTF8, "svg": "image/svg+xml; charset=utf-8", "png": "image/png"}

// badgeRequest reads the address of a badge that shows a metric; name is what stands between the endpoint and the query.
func (s *Server) badgeRequest(shown Metric, name string, values url.Values) (b badgeRequest, err error) {
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 || badgeTypes[name[dot+1:]] == "" {
		return b, &httpError{status: fiber.StatusNotFound, Code: "not_found", Message: "end the address with .json, .svg or .png"}
	}
	b.format = name[dot+1:]
	if site, ok := s.cfg.Sites.ReadSite(values.Get("site")); !ok || !site.Badge {
		return b, errNoBadge
	}
	asked := url.Values{"metrics": {string(shown)}, "site": values["site"]}
	for field, value := range values {
		switch field {
		case "from", "to", "period", "tz":
			asked[field] = value
		case "label":
			b.label = plainLabel(value[0])
		case "site", "no_branding", "style":
		default:
			return b, badParam(field, "unknown parameter; a badge takes site, from, to, period, tz and label")
		}
	}
	if !asked.Has("from") && !asked.Has("period") {
		asked.Set("period", "all")
	}
	if path := name[:dot]; path != badgeTotal {
		asked.Set("path", "/"+strings.TrimPrefix(path, "/"))
	}
	b.Request, err = Parse(Count, asked, s.cfg.Sites, s.cfg.Now())
	return b, err
}

// plainLabel is text without what no picture can hold, cut.
func plainLabel(text string) string {
	runes := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "")))
	return string(runes[:min(len(runes), badgeLabel)])
}

func (s *Server) badgeCount(ctx context.Context, shown Metric, b *badgeRequest) (CountResult, error) {
	key := strings.Join([]string{string(shown), b.Site, b.Path, b.Range.From.String(), b.Range.To.String()}, "\x00")
	return s.badges.get(key, func() (CountResult, error) { return s.cfg.Store.Count(ctx, b.Request) })
}

// badge answers GET /badge/*.
func (s *Server) badge(c *fiber.Ctx) error {
	return s.showBadge(c, "badge", Views, strings.Clone(c.Params("*")), func(b *badgeRequest, count CountResult) ([]byte, error) {
		views := *count.Views
		label := b.label
		if label == "" {
			label = "views"
		}
		switch b.format {
		case "svg":
			return badgeSVG(label, groupDigits(views, ",")), nil
		case "png":
			return badgePNG(label, groupDigits(views, ","))
		}
		return json.Marshal(struct {
			Site  string `json:"site"`
			Path  string `json:"path,omitempty"`
			Views int64  `json:"views"`
			AsOf  string `json:"as_of"`
		}{b.Site, b.Path, views, count.Meta.AsOf})
	})
}

// counter answers GET /counter/*: GoatCounter's visitor counter, which shows visitors, as text with thin spaces.
func (s *Server) counter(c *fiber.Ctx) error {
	name, err := url.PathUnescape(strings.Clone(c.Params("*")))
	if err != nil {
		name = ""
	}
	return s.showBadge(c, "counter", Visitors, name, func(b *badgeRequest, count CountResult) ([]byte, error) {
		const thinSpace = "\u202f"
		visitors := *count.Visitors
		text := groupDigits(visitors, thinSpace)
		switch b.format {
		case "svg":
			return badgeSVG("visitors", text), nil
		case "png":
			return badgePNG("visitors", groupDigits(visitors, " "))
		}
		if visitors == 0 {
			c.Status(fiber.StatusNotFound)
		}
		return json.Marshal(struct {
			CountUnique string `json:"count_unique"`
			Count       string `json:"count"`
		}{text, text})
	})
}

// showBadge answers with what draw makes of the count, to be kept by nobody longer than they ask whether it changed.
func (s *Server) showBadge(c *fiber.Ctx, question string, shown Metric, name string, draw func(*badgeRequest, CountResult) ([]byte, error)) error {
	start := s.cfg.Now()
	c.Set(fiber.HeaderAccessControlAllowOrigin, "*")
	c.Set("Cross-Origin-Resource-Policy", "cross-origin")
	values := queryValues(c)
	if question == "counter" && !values.Has("site") {
		values.Set("site", strings.Clone(c.Hostname()))
	}
	b, err := s.badgeRequest(shown, name, values)
	var count CountResult
	if err == nil {
		count, err = s.badgeCount(c.UserContext(), shown, &b)
	}
	var body []byte
	if err == nil {
		body, err = draw(&b, count)
	}
	if err != nil {
		return s.reply(c, question, start, nil, err)
	}
	s.metrics.observe(question, "ok", s.cfg.Now().Sub(start))
	hash := sha256.Sum256(body)
	etag := `"` + base64.RawURLEncoding.EncodeToString(hash[:12]) + `"`
	c.Set(fiber.HeaderCacheControl, "public, no-cache")
	c.Set(fiber.HeaderETag, etag)
	c.Set(fiber.HeaderContentType, badgeTypes[b.format])
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderContentSecurityPolicy, "default-src 'none'; style-src 'unsafe-inline'")
	if strings.Contains(c.Get(fiber.HeaderIfNoneMatch), etag) {
		return c.SendStatus(fiber.StatusNotModified)
	}
	return c.Send(body)
}

// groupDigits writes n with a separator between thousands.
func groupDigits(n int64, separator string) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + separator + digits[i:]
	}
	return sign + digits
}
