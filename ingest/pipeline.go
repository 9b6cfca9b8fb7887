package ingest

import (
	"net/netip"

	"github.com/pagetally/pagetally/schema"
)

// hit is one event on its way: what the sender said, and the event that is made of it. Its strings point into the request.
type hit struct {
	event schema.Event
	site  *Site

	url      schema.URLParts
	hash     bool // the sender's page uses hash routing
	origin   string
	referrer string
	screen   string
	language string // as in Accept-Language

	ip       netip.Addr // zero when unknown
	agent    string     // empty when unknown
	prefetch bool
	judged   bool // by agent and headers: a browser's, not a keyed caller's
	keyed    bool // from a caller with a key, or with the rights of one: no limits
	byHost   bool // the site was found by the page's host
	by       *caller

	from    string // the referrer's host or app, once it is read; empty for the page's own host
	fromApp bool
	clicks  clicks
	arrival arrival

	person string // when not empty, tells the visitor instead of address and agent
	nobody bool   // counted without a visitor

	everyAddress bool // also those that the site ignores
}

// step is a part of the way: it reads and fills h and says why the event is not counted, if so. Its name is what explaining a
// hit calls it.
type step struct {
	name string
	do   func(s *Server, h *hit) Reason
}

// steps in their order: checks refuse, cheapest first; enrichments complete what is counted. The first reason is the verdict.
var steps = []step{
	{"host", checkHost},
	{"origin", checkOrigin},
	{"prefetch", checkPrefetch},
	{"opt-out", checkOptOut},
	{"ignored address", checkIgnoredAddress},
	{"ignored host", checkIgnoredHost},
	{"retention", checkRetention},
	{"referrer", checkReferrer}, // also judges spam
	{"agent", enrichAgent},      // also judges bots
	{"rate", checkRate},         // behind what refuses bots: they take nothing from a site's rate
	{"page", enrichPage},
	{"ignored path", checkIgnoredPath},
	{"campaign", enrichCampaign},
	{"source", enrichSource},
	{"language", enrichLanguage},
	{"screen", enrichScreen},
	{"place", enrichPlace},
	{"ignored country", checkIgnoredCountry}, // behind what finds the country
	{"fold", foldPath},                       // last
}

// complete runs the steps on a decoded hit whose site is known, then gives it its visitor. An error is the server's: no salt.
func (s *Server) complete(h *hit, scratch *[]byte) (Reason, error) {
	if s.trace != nil {
		return s.trace.complete(s, h, scratch)
	}
	for i := range steps {
		if reason := steps[i].do(s, h); reason != Accepted {
			return reason, nil
		}
	}
	return Accepted, s.identify(h, scratch)
}

func checkHost(_ *Server, h *hit) Reason {
	switch {
	case h.url.Scheme == "":
		return Accepted // a path alone has no host to check
	case !isHTTP(h.url.Scheme):
		return Scheme
	}
	h.event.Hostname = canonicalHost(h.url.Host)
	if !h.site.HasHost(h.event.Hostname) {
		return ForeignHost
	}
	return Accepted
}

func isHTTP(scheme string) bool {
	return equalFold(scheme, "https") || equalFold(scheme, "http")
}

// checkOrigin refuses scripts on pages of others that speak for the site. A browser that says "null" or nothing, or a scheme
// of an app, is judged by the page's host alone.
func checkOrigin(_ *Server, h *hit) Reason {
	if h.origin == "" || h.origin == "null" {
		return Accepted
	}
	origin := schema.SplitURL(h.origin)
	if !isHTTP(origin.Scheme) || h.site.HasHost(canonicalHost(origin.Host)) {
		return Accepted
	}
	return ForeignOrigin
}

func checkPrefetch(_ *Server, h *hit) Reason {
	if h.judged && h.prefetch {
		return Prefetch
	}
	return Accepted
}

func checkRetention(_ *Server, h *hit) Reason {
	if h.site.Retention > 0 && h.event.TS < h.event.ReceivedAt-int64(h.site.Retention)*dayMillis {
		return BeyondRetention
	}
	return Accepted
}

func enrichPage(_ *Server, h *hit) Reason {
	rules := h.site.Paths
	rules.HashRouting = rules.HashRouting || h.hash
	h.event.Path = h.url.PageKey(rules)
	h.event.PathKey = h.event.Path
	return Accepted
}

// frame collects the encoded events of one request.
type frame struct {
	payload []byte
	rows    int
	views   []view // of the events
	paths   []byte // what their paths point into: by the end of a batch its parser has used its memory again
}

func (f *frame) add(e *schema.Event) {
	f.payload = e.AppendTo(f.payload)
	f.rows++
	f.noteView(e)
}

func (f *frame) reset() {
	clear(f.views)
	f.payload, f.rows, f.views, f.paths = f.payload[:0], 0, f.views[:0], f.paths[:0]
}
