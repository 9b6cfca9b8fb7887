package query

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

// Anyone may ask for a public count, as often as they like. So the same count is read once for all who ask at a time and kept for
// publicTTL, and only publicTurns counts are read at once: badges never take the turns of those who ask with a key.
const (
	publicTTL    = time.Second
	publicTurns  = 2
	publicWait   = 2 * time.Second // for a turn
	publicCounts = 4096            // remembered
)

// publicMaxAge is how long others may keep an answer.
const publicMaxAge = 2 * time.Second

// publicCount is a count that anyone may see: the question, and what names it.
type publicCount struct {
	key     string
	request Request
}

// publicCount asks for a metric of a page in the range that values name.
func (s *Server) publicCount(site Site, path string, metric Metric, values url.Values, now time.Time) (publicCount, error) {
	asked := url.Values{"site": {site.Domain}, "metrics": {string(metric)}, "final": {"0"}}
	if path != "" {
		asked.Set("path", path)
	}
	for _, name := range []string{"from", "to", "period"} {
		if value := values.Get(name); value != "" {
			asked.Set(name, value)
		}
	}
	r, err := Parse(Count, asked, s.cfg.Sites, now)
	if err != nil {
		return publicCount{}, err
	}
	key := strings.Join([]string{r.Site, r.Path, string(metric), asked.Get("from"), asked.Get("to"), asked.Get("period")}, "\x00")
	return publicCount{key: key, request: r}, nil
}

// publicReader answers public counts.
type publicReader struct {
	read   func(context.Context, Request) (CountResult, error)
	now    func() time.Time
	turns  chan struct{}
	known  *lru.Cache[string, knownCount]
	flight singleflight.Group
}

type knownCount struct {
	result CountResult
	at     time.Time // when its reading began
}

func newPublicReader(read func(context.Context, Request) (CountResult, error), now func() time.Time) *publicReader {
	known, err := lru.New[string, knownCount](publicCounts)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &publicReader{read: read, now: now, turns: make(chan struct{}, publicTurns), known: known}
}

// get answers from memory, joins whoever is reading the count already, or reads it. ErrBusy says that there was no turn.
func (p *publicReader) get(ctx context.Context, c publicCount) (CountResult, error) {
	if result, ok := p.recent(c.key); ok {
		return result, nil
	}
	// Who joins depends on it, so the reading does not end with the request that began it; the Store bounds it.
	ctx = context.WithoutCancel(ctx)
	v, err, _ := p.flight.Do(c.key, func() (any, error) {
		if result, ok := p.recent(c.key); ok {
			return result, nil // read between the two looks
		}
		if err := p.turn(ctx); err != nil {
			return CountResult{}, err
		}
		defer func() { <-p.turns }()
		at := p.now()
		result, err := p.read(ctx, c.request)
		if err == nil {
			p.known.Add(c.key, knownCount{result, at})
		}
		return result, err
	})
	return v.(CountResult), err
}

func (p *publicReader) recent(key string) (CountResult, bool) {
	known, ok := p.known.Get(key)
	if !ok {
		return CountResult{}, false
	}
	age := p.now().Sub(known.at)
	return known.result, age >= 0 && age < publicTTL
}

func (p *publicReader) turn(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, publicWait)
	defer cancel()
	select {
	case p.turns <- struct{}{}:
		return nil
	case <-wait.Done():
		return ErrBusy
	}
}

// allowEmbedding lets pages of any origin show and read the answer.
func allowEmbedding(c *fiber.Ctx) {
	c.Set(fiber.HeaderAccessControlAllowOrigin, "*")
	c.Set("Cross-Origin-Resource-Policy", "cross-origin")
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
}

// sendPublic sends what anyone may keep for publicMaxAge and ask for again by its tag. What is opened as a page of its own runs no
// script and loads nothing.
func sendPublic(c *fiber.Ctx, status int, contentType string, body []byte) error {
	sum := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(sum[:16]) + `"`
	c.Set(fiber.HeaderCacheControl, "public, max-age=2")
	c.Set(fiber.HeaderETag, tag)
	c.Set(fiber.HeaderContentSecurityPolicy, "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	if status == fiber.StatusOK && hasTag(c.Get(fiber.HeaderIfNoneMatch), tag) {
		return c.Status(fiber.StatusNotModified).Send(nil)
	}
	c.Set(fiber.HeaderContentType, contentType)
	return c.Status(status).Send(body)
}

// hasTag reports whether If-None-Match names tag, by RFC 9110's weak comparison.
func hasTag(header, tag string) bool {
	for one := range strings.SplitSeq(header, ",") {
		one = strings.TrimPrefix(strings.TrimSpace(one), "W/")
		if one == strings.TrimPrefix(tag, "W/") || one == "*" {
			return true
		}
	}
	return false
}
