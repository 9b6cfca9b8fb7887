package ingest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/gofiber/fiber/v2"
)

const (
	maxGoatHits      = 500 // of one request
	headerGoatFilter = "X-Goatcounter-Filter"
)

// goatcounterBody is the body of POST /api/v0/count.
type goatcounterBody struct {
	NoSessions bool         `json:"no_sessions"` // count without visitors
	Filter     *[]string    `json:"filter"`      // "ip": not to count the site's ignored addresses, which it is when absent
	Site       string       `json:"site"`        // of our own: which site, for keys of several
	Hits       rawGoatItems `json:"hits"`
}

// rawGoatItems are the hits as they were sent, one of them too many at most.
type rawGoatItems [][]byte

// UnmarshalJSON cuts an array into its items. A body of megabytes becomes no tree of values.
func (r *rawGoatItems) UnmarshalJSON(b []byte) error {
	*r = nil
	b = bytes.TrimSpace(b)
	if len(b) == 0 || b[0] != '[' {
		return errNoArray
	}
	items, err := splitArray(bytes.Clone(b), nil)
	if errors.Is(err, errEmptyBody) {
		return nil
	}
	*r = items
	return err
}

// goatcounterCall is a request of the API on its way.
type goatcounterCall struct {
	server     *Server
	work       *work
	by         caller
	rights     rights
	site       *Site
	noSessions bool
	everyone   bool // also from ignored addresses

	errors   map[string]string // by index
	filtered []string          // indexes
	dropped  []Reason
}

// goatcounterHits answers POST /api/v0/count: up to 500 hits of a server, with a key of the scope ingest as Bearer or as the password
// of Basic. The site is that of the parameter or the field site, else the key's only one, else the server's only one. Hits that are in
// no error were taken, also when others were not.
func (s *Server) goatcounterHits(c *fiber.Ctx) error {
	w := getWork()
	defer putWork(w)
	call := goatcounterCall{server: s, work: w, errors: map[string]string{}}
	s.readCaller(c, &call.by)
	allowOrigin(c)
	err := call.answer(c)
	s.metrics.observe(dialectGoat, call.by.received, s.now())
	if err == nil {
		return nil
	}
	s.metrics.refuse(call.site, dialectGoat, reasonOf(err))
	e := asAPIError(err)
	if e.Status == fiber.StatusServiceUnavailable {
		retryLater(c, err)
	}
	return c.Status(e.Status).JSON(fiber.Map{"error": e.Message})
}

func (g *goatcounterCall) answer(c *fiber.Ctx) (err error) {
	if g.rights, err = g.server.goatcounterRights(c, &g.by); err != nil {
		return err
	}
	if err := g.limitCalls(c); err != nil {
		return err
	}
	raw, err := readBody(c, MaxBatchBytes, &g.work.body)
	if err != nil {
		return err
	}
	var body goatcounterBody
	if err := json.Unmarshal(raw, &body); err != nil {
		return badRequest("", "body is not what the call takes: "+strings.ToValidUTF8(err.Error(), "\uFFFD"))
	}
	if n := len(body.Hits); n == 0 || n > maxGoatHits {
		return badRequest("hits", "hits must be 1 to 500")
	}
	if err := g.findSite(c.Query("site"), body.Site); err != nil {
		return err
	}
	g.noSessions = body.NoSessions
	g.everyone = body.Filter != nil && !slices.Contains(*body.Filter, "ip")
	for i, item := range body.Hits {
		if err := g.hit(i, item); err != nil {
			return err
		}
	}
	return g.store(c)
}

// goatcounterRights reads the key, which this call needs: what it takes, nobody else may say.
func (s *Server) goatcounterRights(c *fiber.Ctx, by *caller) (rights, error) {
	auth := text(c.Request().Header.Peek(fiber.HeaderAuthorization))
	const basic = "basic "
	if len(auth) > len(basic) && strings.EqualFold(auth[:len(basic)], basic) {
		pair, err := base64.StdEncoding.DecodeString(strings.TrimSpace(auth[len(basic):]))
		_, secret, ok := strings.Cut(string(pair), ":")
		if err != nil || !ok {
			return rights{}, errBadKey
		}
		return s.rightsOfKey(secret)
	}
	r, err := s.rightsOf(c, by)
	if err == nil && !r.keyed {
		err = errNeedsKey
	}
	return r, err
}

var (
	errNeedsKey = &apiError{Status: fiber.StatusUnauthorized, Code: "bad_key", Field: "Authorization", Message: "needs a key, as Bearer or as the password of Basic"}
	errKeySite  = &apiError{Status: fiber.StatusForbidden, Code: "forbidden", Field: "site", Message: "the key is for other sites"}
)

func (g *goatcounterCall) findSite(names ...string) error {
	i := slices.IndexFunc(names, func(name string) bool { return name != "" })
	var ok bool
	switch sites := g.server.sites; {
	case i >= 0:
		g.site, ok = sites.Lookup(names[i])
	case len(g.rights.key.Sites) == 1:
		g.site, ok = sites.Lookup(g.rights.key.Sites[0])
	default:
		g.site, ok = sites.sole()
	}
	switch {
	case !ok:
		return badRequest("site", "no such site: name one in the parameter site")
	case !g.rights.key.MayWrite(g.site.Domain):
		return errKeySite
	}
	return nil
}

// hit judges one hit. An error is the server's.
func (g *goatcounterCall) hit(index int, item []byte) error {
	h := g.work.start(&g.by)
	h.keyed, h.judged, h.prefetch, h.origin, h.site, h.everyAddress = true, false, false, "", g.site, g.everyone
	reason, bad, err := g.judge(h, item)
	if err != nil {
		return err
	}
	switch {
	case reason == Accepted:
		g.work.frame.add(&h.event)
		return nil
	case reason.filtered():
		g.filtered = append(g.filtered, strconv.Itoa(index))
	case bad != nil:
		g.errors[strconv.Itoa(index)] = bad.field + ": " + bad.message
	default:
		g.errors[strconv.Itoa(index)] = string(reason)
	}
	g.dropped = appendReason(g.dropped, reason)
	g.server.metrics.refuse(g.site, dialectGoat, reason)
	return nil
}

func (g *goatcounterCall) judge(h *hit, item []byte) (reason Reason, bad *fieldError, err error) {
	f, bad := g.parse(item)
	if bad == nil {
		bad = g.fill(h, &f)
	}
	if bad != nil {
		return bad.reason, bad, nil
	}
	reason, err = g.server.judge(g.work, h)
	if country := countryOf(f.location); country != "" && country != h.event.Country {
		h.event.Country, h.event.Region, h.event.City = country, "", "" // the sender knows better than its visitor's address
	}
	return reason, nil, err
}

// store journals what was taken, all or none, and answers.
func (g *goatcounterCall) store(c *fiber.Ctx) error {
	rows := g.work.frame.rows
	if rows > 0 {
		if _, err := g.server.append(&g.work.frame); err != nil {
			return err
		}
	}
	for range rows {
		g.server.metrics.accept(g.site, dialectGoat)
	}
	if len(g.filtered) > 0 {
		c.Set(headerGoatFilter, strings.Join(g.filtered, ", "))
	}
	if len(g.dropped) > 0 {
		c.Set(HeaderReason, joinReasons(g.dropped))
	}
	if len(g.errors) > 0 {
		return c.Status(fiber.StatusBadRequest).JSON(fiber.Map{"errors": g.errors})
	}
	return c.Status(fiber.StatusAccepted).JSON(fiber.Map{"status": "ok"})
}
