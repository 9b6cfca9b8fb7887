package ingest

import (
	"encoding/base64"

	"github.com/gofiber/fiber/v2"
)

// countOne takes the decoded hit of a one-event request the rest of its way: journaled when it returns Accepted, else why it does
// not count. An error is the server's.
func (s *Server) countOne(w *work, h *hit, dialect string) (Reason, error) {
	reason, err := s.judge(w, h)
	if err == nil && reason == Accepted {
		w.frame.add(&h.event)
		_, err = s.append(&w.frame)
	}
	switch {
	case err != nil:
		reason = Unavailable
		s.metrics.refuse(h.site, dialect, reason)
	case reason != Accepted:
		s.metrics.refuse(h.site, dialect, reason)
	default:
		s.metrics.accept(h.site, dialect)
	}
	return reason, err
}

// judge completes a hit whose site may be unknown.
func (s *Server) judge(w *work, h *hit) (Reason, error) {
	if h.site == nil {
		return UnknownSite, nil
	}
	h.event.Site = h.site.Domain
	return s.complete(h, &w.scratch)
}

// gif is a transparent image of one pixel, 43 bytes.
var gif = func() []byte {
	b, err := base64.StdEncoding.DecodeString("R0lGODlhAQABAIAAAP///wAAACH5BAEAAAAALAAAAAABAAEAAAICRAEAOw==")
	if err != nil {
		panic(err) // a constant
	}
	return b
}()

// sendGIF answers with the pixel. A copy that a browser or an image proxy keeps would hide the next view.
func sendGIF(c *fiber.Ctx, status int, reason Reason) error {
	c.Set(fiber.HeaderCacheControl, "no-store, no-cache")
	c.Set("Cross-Origin-Resource-Policy", "cross-origin")
	if reason != Accepted {
		c.Set(HeaderReason, string(reason))
	}
	if len(c.Response().Header.Peek(fiber.HeaderAccessControlAllowOrigin)) == 0 {
		c.Set(fiber.HeaderAccessControlAllowOrigin, "*")
	}
	c.Type("gif")
	return c.Status(status).Send(gif)
}
