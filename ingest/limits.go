package ingest

import (
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
)

// DefaultLimits are the limits of a site that sets none.
var DefaultLimits = Limits{PerAddress: 100, PerSite: 5000, NewPathsDay: 100_000}

// or fills in the defaults for limits that are not set.
func (l Limits) or(d Limits) Limits {
	if l.PerAddress > 0 {
		d.PerAddress = l.PerAddress
	}
	if l.PerSite > 0 {
		d.PerSite = l.PerSite
	}
	if l.NewPathsDay > 0 {
		d.NewPathsDay = l.NewPathsDay
	}
	return d
}

// checkRate holds beacons to the rates of their site: first those of the address they come from, then those of the whole site. What
// an address sends too much takes nothing from the site's rate. Callers with a key, or with the rights of one, are not limited.
func checkRate(s *Server, h *hit) Reason {
	if h.keyed {
		return Accepted
	}
	limits := h.site.Limits.or(DefaultLimits)
	now := h.by.received
	explained := s.trace != nil
	wait := s.addresses.take(s.addresses.sender(addressKey(h.ip.As16()), h.site.Domain), limits.PerAddress, now, explained)
	if wait == 0 {
		wait = s.siteRates.take(s.siteRates.sender([16]byte{}, h.site.Domain), limits.PerSite, now, explained)
	}
	if wait == 0 || s.loopback && h.by.request != nil && IsLocal(h.by.request, s.proxies) {
		return Accepted
	}
	h.by.wait = max(h.by.wait, wait)
	return RateLimited
}

// tooMany makes the reply a 429 that says when to come back. The dialect writes the body.
func tooMany(c *fiber.Ctx, by *caller) {
	c.Status(fiber.StatusTooManyRequests)
	setRetryAfter(c, by.wait)
}

// setRetryAfter names the wait in whole seconds, at least one.
func setRetryAfter(c *fiber.Ctx, wait time.Duration) {
	c.Set(fiber.HeaderRetryAfter, strconv.FormatInt(max(1, int64((wait+time.Second-1)/time.Second)), 10))
}
