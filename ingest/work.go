package ingest

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fastjson"

	"github.com/pagetally/pagetally/schema"
)

// work is the memory of one request, used again by later ones.
type work struct {
	parser  fastjson.Parser
	hit     hit
	props   []schema.Prop
	frame   frame
	body    []byte // decompressed
	scratch []byte

	plausible plausibleRequest
}

// maxKept bounds the buffers that wait in the pool for the next request.
const maxKept = 256 << 10

// maxKeptViews is likewise, in entries.
const maxKeptViews = 4096

var works = sync.Pool{New: func() any { return new(work) }}

func getWork() *work {
	w := works.Get().(*work)
	w.frame.reset()
	return w
}

// putWork gives w back. What points into the request is dropped, so that nothing of it can be read by mistake later.
func putWork(w *work) {
	if cap(w.body) > maxKept || cap(w.frame.payload) > maxKept || cap(w.frame.views) > maxKeptViews {
		return
	}
	w.frame.reset()
	w.hit = hit{}
	w.plausible.reset()
	clear(w.props)
	works.Put(w)
}

// caller is what the request says about its sender, in strings that point into the request.
type caller struct {
	received time.Time
	ip       netip.Addr
	agent    string
	hints    hints
	origin   string
	language string
	prefetch bool

	request *fiber.Ctx
	wait    time.Duration // until an event that was over a limit may be sent again
}

func (s *Server) readCaller(c *fiber.Ctx, by *caller) {
	header := &c.Request().Header
	*by = caller{
		received: s.now(),
		ip:       s.proxies.Client(peerOf(c), s.proxies.forwarded(header)),
		agent:    text(header.UserAgent()),
		request:  c,
	}
	// In one pass: to look for one header is to walk all of them.
	header.VisitAll(func(name, value []byte) { by.take(text(name), text(value)) })
	if by.hints.brands == "" {
		by.hints = hints{}
	}
}

// take notes a header that tells the sender. Of a repeated one the first counts.
func (by *caller) take(name, value string) {
	switch name {
	case fiber.HeaderOrigin:
		setFirst(&by.origin, value)
	case fiber.HeaderAcceptLanguage:
		setFirst(&by.language, value)
	case "Sec-Purpose", "Purpose", "X-Moz":
		by.prefetch = by.prefetch || isPrefetch(value)
	default:
		by.hints.take(name, value)
	}
}

func setFirst(to *string, value string) {
	if *to == "" {
		*to = value
	}
}

// isPrefetch reads "prefetch", perhaps with parameters such as ";prerender", or "preview", for which a page is drawn small.
func isPrefetch(header string) bool {
	purpose := strings.ToLower(header)
	return strings.HasPrefix(purpose, "prefetch") || strings.HasPrefix(purpose, "preview")
}

func peerOf(c *fiber.Ctx) netip.Addr {
	tcp, ok := c.Context().RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
}

// start makes w's hit a new event of the caller's with the rights of a beacon.
func (w *work) start(by *caller) *hit {
	received := by.received.UnixMilli()
	w.hit = hit{
		event:  schema.Event{Name: schema.PageView, TS: received, ReceivedAt: received, N: 1, Scroll: schema.NoScroll},
		origin: by.origin, language: by.language, ip: by.ip, agent: by.agent, prefetch: by.prefetch, judged: true,
		by: by,
	}
	w.props = w.props[:0]
	return &w.hit
}
