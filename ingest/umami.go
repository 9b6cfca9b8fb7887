package ingest

import "github.com/gofiber/fiber/v2"

// headerUmamiCache names the request header that brings back the token of the last reply.
const headerUmamiCache = "x-umami-cache"

func (s *Server) registerUmami(app *fiber.App) {
	for path, answer := range map[string]fiber.Handler{"/api/send": s.umamiSend, "/api/batch": s.umamiBatch} {
		app.Options(path, preflight("content-type, authorization, "+headerUmamiCache))
		app.Post(path, answer)
		app.All(path, methodNotAllowed("POST, OPTIONS"))
	}
	app.Get("/api/heartbeat", func(c *fiber.Ctx) error { return c.JSON(fiber.Map{"ok": true}) })
}

// umamiSession is the answer to what was taken: the tracker sends the token back and shows the ids to nobody.
type umamiSession struct {
	Cache     string `json:"cache"`
	SessionID string `json:"sessionId"`
	VisitID   string `json:"visitId"`
}

// umamiBoop is what a bot is told.
type umamiBoop struct {
	Beep string `json:"beep"`
}

var boop = umamiBoop{Beep: "boop"}

// umamiError is the dialect's envelope of an error.
type umamiError struct {
	Error umamiProblem `json:"error"`
}

type umamiProblem struct {
	Message string `json:"message"`
	Code    string `json:"code"`
	Status  int    `json:"status"`
	Field   string `json:"field,omitempty"`
	Reason  Reason `json:"reason,omitempty"`
}

// umamiReply is the answer to one item.
type umamiReply struct {
	status int
	reason Reason // why it did not count
	body   any    // umamiSession, umamiBoop or umamiError
}

// umamiRequest is a request on its way.
type umamiRequest struct {
	server *Server
	work   *work
	by     caller
	rights rights
	token  umamiToken // of the last visit known; zero when there is none
	sites  []*Site    // of the events in the frame
}

// umamiSend answers POST /api/send: one event.
func (s *Server) umamiSend(c *fiber.Ctx) error {
	return s.umami(c, MaxEventBytes, func(r *umamiRequest, body []byte) error {
		reply, err := r.item(body)
		if err == nil {
			err = r.store()
		}
		if err != nil {
			return err
		}
		if reply.reason != Accepted {
			c.Set(HeaderReason, string(reply.reason))
		}
		if reply.reason == RateLimited {
			setRetryAfter(c, r.by.wait)
		}
		return c.Status(reply.status).JSON(reply.body)
	})
}

// umami answers a request with what answer makes of its body, and an error in the dialect's envelope.
func (s *Server) umami(c *fiber.Ctx, limit int, answer func(*umamiRequest, []byte) error) error {
	w := getWork()
	defer putWork(w)
	r := umamiRequest{server: s, work: w}
	s.readCaller(c, &r.by)
	allowOrigin(c)
	err := s.umamiStart(c, &r, limit, answer)
	s.metrics.observe(dialectUmami, r.by.received, s.now())
	if err == nil {
		return nil
	}
	s.metrics.refuse(nil, dialectUmami, reasonOf(err))
	e := asAPIError(err)
	if e.Status == fiber.StatusServiceUnavailable {
		retryLater(c, err)
	}
	return c.Status(e.Status).JSON(umamiFailure(e.Status, e.Message, e.Field, "").body)
}

func (s *Server) umamiStart(c *fiber.Ctx, r *umamiRequest, limit int, answer func(*umamiRequest, []byte) error) (err error) {
	if r.rights, err = s.rightsOf(c, &r.by); err != nil {
		return err
	}
	body, err := readBody(c, limit, &r.work.body)
	if err != nil {
		return err
	}
	r.token, _ = s.tokens.parse(text(c.Request().Header.Peek(headerUmamiCache)))
	return answer(r, body)
}

// item judges one event and adds it to the frame if it counts. An error is the server's.
func (r *umamiRequest) item(body []byte) (umamiReply, error) {
	h := r.work.start(&r.by)
	kind, bad := r.decode(h, body)
	if bad != nil {
		return r.refuse(h, bad.reason, bad), nil
	}
	reason, err := r.server.judge(r.work, h)
	switch {
	case err != nil:
		return umamiReply{}, err
	case reason != Accepted:
		return r.refuse(h, reason, nil), nil
	}
	reply := umamiReply{status: fiber.StatusOK, body: r.visit(h)}
	if kind != umamiEvent {
		reply.reason = NoView
		r.server.metrics.refuse(h.site, dialectUmami, NoView)
		return reply, nil
	}
	r.work.frame.add(&h.event)
	r.sites = append(r.sites, h.site)
	return reply, nil
}

// store journals the events of the request, all or none.
func (r *umamiRequest) store() error {
	if r.work.frame.rows == 0 {
		return nil
	}
	if _, err := r.server.append(&r.work.frame); err != nil {
		return err
	}
	for _, site := range r.sites {
		r.server.metrics.accept(site, dialectUmami)
	}
	return nil
}

// refuse counts an event that does not count and answers it as Umami answers its like.
func (r *umamiRequest) refuse(h *hit, reason Reason, bad *fieldError) umamiReply {
	r.server.metrics.refuse(h.site, dialectUmami, reason)
	var reply umamiReply
	switch {
	case bad != nil && reason != KeySite:
		reply = umamiFailure(fiber.StatusBadRequest, bad.field+" "+bad.message, bad.field, reason)
	case reason == UnknownSite:
		reply = umamiFailure(fiber.StatusBadRequest, "Website not found.", "website", reason)
	case reason == IgnoredAddress || reason == ForeignHost || reason == ForeignOrigin || reason == KeySite:
		reply = umamiFailure(fiber.StatusForbidden, "Forbidden", umamiFieldOf(reason), reason)
	case reason.filtered():
		reply = umamiReply{status: fiber.StatusOK, body: boop}
	case reason == RateLimited:
		reply = umamiFailure(fiber.StatusTooManyRequests, "Too many requests", "", reason)
	default:
		reply = umamiFailure(fiber.StatusBadRequest, "Bad request", umamiFieldOf(reason), reason)
	}
	reply.reason = reason
	return reply
}

// umamiFieldOf is fieldOf in the dialect's words.
func umamiFieldOf(reason Reason) string {
	switch field := fieldOf(reason); field {
	case "site":
		return "website"
	case "user_agent":
		return "userAgent"
	case "ts":
		return "timestamp"
	default:
		return field
	}
}

func umamiFailure(status int, message, field string, reason Reason) umamiReply {
	return umamiReply{status: status, body: umamiError{umamiProblem{Message: message, Code: umamiCode(status), Status: status, Field: field, Reason: reason}}}
}

func umamiCode(status int) string {
	switch status {
	case fiber.StatusBadRequest:
		return "bad-request"
	case fiber.StatusUnauthorized:
		return "unauthorized"
	case fiber.StatusForbidden:
		return "forbidden"
	case fiber.StatusRequestEntityTooLarge:
		return "too-large"
	case fiber.StatusTooManyRequests:
		return "too-many-requests"
	case fiber.StatusServiceUnavailable:
		return "service-unavailable"
	}
	return "server-error"
}
