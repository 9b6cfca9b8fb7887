package ingest

import (
	"strconv"
	"time"

	"github.com/gofiber/fiber/v2"
)

// The limit of GoatCounter's API, which its clients keep to: so many calls of a key in such a time, each of up to maxGoatHits hits.
const (
	goatCalls  = 60
	goatPeriod = 2 * time.Minute
)

// Headers by which GoatCounter's clients pace themselves.
const (
	headerGoatLimit = "X-Rate-Limit-Limit"     // calls in goatPeriod
	headerGoatLeft  = "X-Rate-Limit-Remaining" // calls that may follow at once
	headerGoatReset = "X-Rate-Limit-Reset"     // seconds until the next call may follow
)

var errTooManyCalls = &apiError{Status: fiber.StatusTooManyRequests, Code: "rate_limited", Message: "too many calls: wait as many seconds as " + headerGoatReset + " says"}

// limitCalls holds a key to the limit and tells it how much of that is left. Callers on this machine that need no key have none.
func (g *goatcounterCall) limitCalls(c *fiber.Ctx) error {
	s := g.server
	if s.goatCalls < 0 || g.rights.local {
		return nil
	}
	sender := s.goatRates.sender([16]byte{}, g.rights.key.ID)
	rate := float64(s.goatCalls) / goatPeriod.Seconds()
	refused := s.goatRates.take(sender, rate, g.by.received, s.trace != nil)
	next := s.goatRates.take(sender, rate, g.by.received, true)
	c.Set(headerGoatLimit, strconv.Itoa(s.goatCalls))
	c.Set(headerGoatLeft, strconv.Itoa(s.goatRates.left(sender, rate, g.by.received)))
	c.Set(headerGoatReset, strconv.FormatInt(int64((next+time.Second-1)/time.Second), 10))
	if refused == 0 {
		return nil
	}
	setRetryAfter(c, refused)
	c.Set(HeaderReason, string(RateLimited))
	return errTooManyCalls
}
