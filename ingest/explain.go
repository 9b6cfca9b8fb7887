package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/gofiber/fiber/v2"
	"github.com/oklog/ulid/v2"
	"github.com/valyala/fasthttp"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
)

// ExplainRequest is a request that is not made: what would happen to it is told. Without a body it is a page view of URL, as
// Plausible's tracker sends it.
type ExplainRequest struct {
	Endpoint string            `json:"endpoint,omitempty"` // "POST /api/event", "GET /count?p=/a"; when empty, what the body looks like
	Headers  map[string]string `json:"headers,omitempty"`  // without a User-Agent a browser's is assumed
	Peer     string            `json:"peer,omitempty"`     // the address that the connection comes from
	URL      string            `json:"url,omitempty"`
	Site     string            `json:"site"` // beside URL; when empty, the site is found by the page's host
	Body     json.RawMessage   `json:"body"` // any JSON; text is sent as it is, so that it may be malformed
}

// Explanation says what would happen to a request. Nothing of it was stored, and no limit took notice.
type Explanation struct {
	Endpoint string           `json:"endpoint"`
	Assumed  []string         `json:"assumed,omitempty"` // what the question left open
	Client   ExplainedClient  `json:"client"`
	Hits     []ExplainedHit   `json:"hits"` // those that could be read, one for each site they name
	Reply    ExplainedReply   `json:"reply"`
	Events   []map[string]any `json:"events"` // that would be stored, without the visitor
	Stored   bool             `json:"stored"` // false
}

// ExplainedClient is how the client's address was found.
type ExplainedClient struct {
	Address string `json:"address"`
	Peer    string `json:"peer"`
	Header  string `json:"header"` // that trusted proxies use
	Value   string `json:"value,omitempty"`
	Why     string `json:"why"`
}

// ExplainedReply is the answer that the sender would get.
type ExplainedReply struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers,omitempty"` // those that say something about the event
	Body    string            `json:"body"`
}

// explainable are the endpoints that take events.
var explainable = []string{
	"POST /api/event", "POST /v1/events", "POST /api/send", "POST /api/batch", "POST /api/v0/count", "POST /count", "GET /count", "GET /pixel.gif",
}

// assumedAgent stands in for a browser's.
const assumedAgent = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"

// Explain tells what would happen to q. The way is the real one, with the real sites, keys, salts and limits; only the journal is
// another and limits are looked at without taking anything from them. Its errors are about q.
func (s *Server) Explain(q ExplainRequest) (Explanation, error) {
	x := Explanation{Hits: []ExplainedHit{}, Events: []map[string]any{}}
	body, err := q.body()
	if err != nil {
		return x, err
	}
	if x.Endpoint = q.Endpoint; x.Endpoint == "" {
		x.Endpoint = endpointOf(body)
		x.Assumed = append(x.Assumed, "endpoint: "+x.Endpoint)
	}
	method, uri, err := cutEndpoint(x.Endpoint)
	if err != nil {
		return x, err
	}
	peer, err := netip.ParseAddr(q.Peer)
	if err != nil {
		return x, badRequest("peer", "is not an address")
	}
	var request fasthttp.Request
	request.Header.SetMethod(method)
	request.SetRequestURI(uri)
	request.SetBody(body)
	if x.Assumed, err = q.setHeaders(&request, x.Assumed); err != nil {
		return x, err
	}
	x.Client = s.explainClient(&request, peer)
	s.rehearse(&x, &request, peer)
	return x, nil
}

// rehearse puts the request through a copy of the server and notes what it does.
func (s *Server) rehearse(x *Explanation, request *fasthttp.Request, peer netip.Addr) {
	notes := &notebook{}
	copied := *s
	copied.journal, copied.delivery, copied.trace = notes, nil, &trace{}
	copied.pending, copied.returns = nil, nil
	copied.metrics, _ = newMetrics(nil) // fails for a registry only
	copied.idempotency = newIdempotencyKeys(s.now)
	copied.refusals = &edgeLog{log: slog.New(slog.DiscardHandler)}
	app := fiber.New(FiberConfig())
	copied.registerDialects(app)

	var ctx fasthttp.RequestCtx
	ctx.Init(request, net.TCPAddrFromAddrPort(netip.AddrPortFrom(peer, 0)), nil)
	app.Handler()(&ctx)
	x.Reply = explainReply(&ctx.Response)
	x.Hits = append(x.Hits, copied.trace.hits...)
	x.Events = append(x.Events, notes.events...)
}

// notebook is a journal that notes the events and keeps nothing.
type notebook struct{ events []map[string]any }

// Append notes the events.
func (n *notebook) Append(_ context.Context, payload []byte, _ int) (journal.Position, error) {
	for rest := string(payload); rest != ""; {
		var e schema.Event
		var err error
		if rest, err = schema.DecodeEvent(rest, &e); err != nil {
			return journal.Position{}, err
		}
		n.events = append(n.events, describe(&e))
	}
	return journal.Position{Segment: ulid.Make()}, nil
}

func (q *ExplainRequest) body() ([]byte, error) {
	if string(q.Body) == "null" {
		q.Body = nil
	}
	if q.URL != "" {
		if len(q.Body) > 0 {
			return nil, badRequest("url", "excludes body")
		}
		fields := map[string]string{"name": schema.PageView, "url": q.URL}
		if q.Site != "" {
			fields["domain"] = q.Site
		}
		return json.Marshal(fields)
	}
	if q.Site != "" {
		return nil, badRequest("site", "goes with url; a body names its site itself")
	}
	var sent string
	if len(q.Body) > 0 && q.Body[0] == '"' && json.Unmarshal(q.Body, &sent) == nil {
		return []byte(sent), nil
	}
	if len(q.Body) == 0 && !strings.HasPrefix(q.Endpoint, "GET ") {
		return nil, badRequest("body", "is required, or url")
	}
	return q.Body, nil
}

// endpointOf guesses which tracker sends such a body.
func endpointOf(body []byte) string {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, byteOrderMark))
	var fields map[string]json.RawMessage
	var list []map[string]json.RawMessage
	many := json.Unmarshal(body, &list) == nil && len(list) > 0
	if many {
		fields = list[0]
	} else {
		_ = json.Unmarshal(body, &fields) // what is no object has no fields
	}
	has := func(name string) bool { _, ok := fields[name]; return ok }
	switch {
	case has("payload") && many:
		return "POST /api/batch"
	case has("payload"):
		return "POST /api/send"
	case has("hits"):
		return "POST /api/v0/count"
	case has("site") || many:
		return "POST /v1/events"
	}
	return "POST /api/event"
}

func cutEndpoint(endpoint string) (method, uri string, err error) {
	path, _, _ := strings.Cut(endpoint, "?")
	if !slices.Contains(explainable, path) {
		return "", "", badRequest("endpoint", "want one of "+strings.Join(explainable, ", "))
	}
	method, uri, _ = strings.Cut(endpoint, " ")
	return method, uri, nil
}

func (q *ExplainRequest) setHeaders(request *fasthttp.Request, assumed []string) ([]string, error) {
	agent := false
	for name, value := range q.Headers {
		if name == "" || strings.ContainsAny(name+value, "\r\n\x00") || strings.ContainsAny(name, " :") {
			return nil, badRequest("headers", fmt.Sprintf("%q is not a header", name))
		}
		request.Header.Set(name, value)
		agent = agent || strings.EqualFold(name, fiber.HeaderUserAgent)
	}
	if !agent {
		request.Header.SetUserAgent(assumedAgent)
		assumed = append(assumed, "User-Agent: "+assumedAgent)
	}
	return assumed, nil
}

func (s *Server) explainClient(request *fasthttp.Request, peer netip.Addr) ExplainedClient {
	header := s.proxies.Header()
	value := string(request.Header.Peek(header)) // one line: names of a JSON object are not repeated
	x := ExplainedClient{Peer: peer.String(), Header: header, Value: value, Address: s.proxies.Client(peer, value).String()}
	switch {
	case !s.proxies.trusts(peer.Unmap().WithZone("")):
		x.Why = "the peer: it is no trusted proxy, so that the header is ignored"
	case value == "":
		x.Why = "the peer: it is a trusted proxy, but names nobody"
	default:
		x.Why = "the last valid address in the header that is no trusted proxy"
	}
	return x
}

// tellingHeaders are the reply headers that an explanation shows.
var tellingHeaders = []string{HeaderReason, HeaderDropped, fiber.HeaderRetryAfter, "X-Goatcounter", "X-Goatcounter-Filter"}

func explainReply(response *fasthttp.Response) ExplainedReply {
	x := ExplainedReply{Status: response.StatusCode(), Body: string(response.Body())}
	if bytes.HasPrefix(response.Header.ContentType(), []byte("image/")) {
		x.Body = fmt.Sprintf("(image of %d bytes)", len(response.Body()))
	}
	for _, name := range tellingHeaders {
		if value := response.Header.Peek(name); len(value) > 0 {
			if x.Headers == nil {
				x.Headers = map[string]string{}
			}
			x.Headers[name] = string(value)
		}
	}
	return x
}

func (s *Server) registerExplain(app *fiber.App) {
	app.Post("/v1/explain", s.explain)
	app.All("/v1/explain", methodNotAllowed("POST"))
}

var (
	errExplainKey  = &apiError{Status: fiber.StatusUnauthorized, Code: "needs_key", Field: "Authorization", Message: "explaining needs a key with the scope ingest"}
	errExplainSite = &apiError{Status: fiber.StatusForbidden, Code: "forbidden", Field: "site", Message: "the key is for other sites"}
)

// explain answers POST /v1/explain, to those who may send events with a key: the answer tells a site's settings.
func (s *Server) explain(c *fiber.Ctx) error {
	var by caller
	s.readCaller(c, &by)
	rights, err := s.rightsOf(c, &by)
	switch {
	case err != nil:
		return err
	case !rights.keyed:
		return errExplainKey
	}
	q, err := decodeExplain(c)
	if err != nil {
		return err
	}
	if q.Peer == "" {
		q.Peer = by.ip.String()
	}
	x, err := s.Explain(q)
	if err != nil {
		return err
	}
	for _, hit := range x.Hits {
		if !rights.key.MayWrite(hit.Site) {
			return errExplainSite
		}
	}
	return c.JSON(x)
}

func decodeExplain(c *fiber.Ctx) (q ExplainRequest, err error) {
	var buf []byte
	body, err := readBody(c, 4*MaxEventBytes, &buf)
	if err != nil {
		return q, err
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&q); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return q, badRequest(wrong.Field, "must be "+wrong.Type.String())
		}
		return q, badRequest("body", strings.TrimPrefix(err.Error(), "json: "))
	}
	return q, nil
}
