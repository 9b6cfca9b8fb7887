package query

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

// Key is an API key as reading sees it.
type Key struct {
	ID    string   // names it among others
	Read  bool     // may read
	Sites []string // of these sites; empty: of all
}

// Keys finds a key by the secret a caller sent. It is asked on every request.
type Keys interface {
	ReadKey(secret string) (Key, bool)
}

func (k Key) mayRead(site string) bool {
	return k.Read && (len(k.Sites) == 0 || slices.Contains(k.Sites, site))
}

// allSites is what a question about the whole installation needs the right to.
const allSites = ""

// admit refuses a caller who may not read site. Who has no right learns nothing of which sites exist.
func (s *Server) admit(c *fiber.Ctx, site string) error {
	if s.cfg.Loopback != nil && s.cfg.Loopback(c) {
		return nil
	}
	domain := site
	if site != allSites {
		if found, ok := s.cfg.Sites.ReadSite(site); ok {
			if found.Public {
				return nil
			}
			domain = found.Domain
		}
	}
	key, ok := s.key(c)
	switch {
	case !ok:
		return &httpError{status: fiber.StatusUnauthorized, Code: "unauthorized", Message: "send a key that may read: Authorization: Bearer KEY"}
	case domain == allSites && len(key.Sites) > 0, !key.mayRead(domain):
		return &httpError{status: fiber.StatusForbidden, Code: "forbidden", Message: "the key may not read this"}
	}
	return s.rates.take(key.ID)
}

const (
	defaultKeyRate = 20
	keyBurst       = 20 // seconds' worth of questions that may come at once
	keysRated      = 10_000
)

// keyRates hold each key to its rate.
type keyRates struct {
	rate  float64
	now   func() time.Time
	mu    sync.Mutex
	known *lru.Cache[string, *rate.Limiter]
}

func newKeyRates(perSecond float64, now func() time.Time) *keyRates {
	known, err := lru.New[string, *rate.Limiter](keysRated)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	if perSecond <= 0 {
		perSecond = defaultKeyRate
	}
	return &keyRates{rate: perSecond, now: now, known: known}
}

// take is a 429 with the time to wait when the key asks too often.
func (k *keyRates) take(id string) error {
	k.mu.Lock()
	limiter, ok := k.known.Get(id)
	if !ok {
		limiter = rate.NewLimiter(rate.Limit(k.rate), max(1, int(k.rate*keyBurst)))
		k.known.Add(id, limiter)
	}
	k.mu.Unlock()
	now := k.now()
	reservation := limiter.ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait <= 0 {
		return nil
	}
	reservation.CancelAt(now)
	return &httpError{status: fiber.StatusTooManyRequests, Code: "too_many_requests", Message: fmt.Sprintf("the key may ask %g questions a second", k.rate), wait: wait}
}

func (s *Server) key(c *fiber.Ctx) (Key, bool) {
	scheme, secret, _ := strings.Cut(c.Get(fiber.HeaderAuthorization), " ")
	if s.cfg.Keys == nil || !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return Key{}, false
	}
	return s.cfg.Keys.ReadKey(strings.Clone(strings.TrimSpace(secret)))
}
