package query

import (
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
)

// Key is an API key as reading sees it.
type Key struct {
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
	return nil
}

func (s *Server) key(c *fiber.Ctx) (Key, bool) {
	scheme, secret, _ := strings.Cut(c.Get(fiber.HeaderAuthorization), " ")
	if s.cfg.Keys == nil || !strings.EqualFold(scheme, "Bearer") || secret == "" {
		return Key{}, false
	}
	return s.cfg.Keys.ReadKey(strings.Clone(strings.TrimSpace(secret)))
}
