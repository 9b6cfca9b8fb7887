package ingest

import (
	"errors"

	"github.com/gofiber/fiber/v2"
)

// allowOrigin lets the page that sent the request read the reply. Beacons travel with credentials, for which browsers accept the
// page's own origin and not "*".
func allowOrigin(c *fiber.Ctx) {
	origin := c.Request().Header.Peek(fiber.HeaderOrigin)
	if len(origin) == 0 {
		return
	}
	header := &c.Response().Header
	header.SetBytesV(fiber.HeaderAccessControlAllowOrigin, origin)
	header.Set(fiber.HeaderVary, fiber.HeaderOrigin)
	header.Set(fiber.HeaderAccessControlAllowCredentials, "true")
	header.Set(fiber.HeaderAccessControlExposeHeaders, HeaderDropped+", "+HeaderReason)
}

// preflight answers OPTIONS: any page may ask, the POST itself is judged by site and origin.
func preflight(headers string) fiber.Handler {
	return func(c *fiber.Ctx) error {
		allowOrigin(c)
		c.Set(fiber.HeaderAccessControlAllowMethods, "POST, OPTIONS")
		c.Set(fiber.HeaderAccessControlAllowHeaders, headers)
		c.Set(fiber.HeaderAccessControlMaxAge, "86400")
		return c.SendStatus(fiber.StatusNoContent)
	}
}

// reasonOf is the reason under which a request is counted that failed before its events were known.
func reasonOf(err error) Reason {
	var api *apiError
	switch {
	case !errors.As(err, &api):
		return Unavailable
	case api.Status == fiber.StatusRequestEntityTooLarge:
		return TooLarge
	case api.Status == fiber.StatusTooManyRequests:
		return RateLimited
	}
	return BadRequest
}
