package ingest

import (
	"strings"

	"github.com/valyala/fastjson"

	"github.com/pagetally/pagetally/schema"
)

// plausibleFields are the keys of the body that mean something; the rest are ignored.
type plausibleFields struct {
	name, url, domain, referrer, props, hash, interactive *fastjson.Value
	scroll, engaged, width                                *fastjson.Value
	id, title, ts                                         *fastjson.Value // of our own tracker
}

// parse finds the fields in a body. A short key goes before its long form; of a repeated key the last one counts.
func (f *plausibleFields) parse(p *fastjson.Parser, body []byte) *fieldError {
	v, err := p.ParseBytes(body)
	if err != nil {
		return &fieldError{"request", "Unable to parse request body as json", BadRequest}
	}
	object, err := v.Object()
	if err != nil {
		return &fieldError{"request", "must be a JSON object", BadRequest}
	}
	var long plausibleFields
	var m, meta, props *fastjson.Value
	object.Visit(func(key []byte, v *fastjson.Value) {
		switch text(key) {
		case "n":
			f.name = v
		case "name":
			long.name = v
		case "u":
			f.url = v
		case "url":
			long.url = v
		case "d":
			f.domain = v
		case "domain":
			long.domain = v
		case "r":
			f.referrer = v
		case "referrer":
			long.referrer = v
		case "m":
			m = v
		case "meta":
			meta = v
		case "p":
			f.props = v
		case "props":
			props = v
		case "h":
			f.hash = v
		case "hashMode":
			long.hash = v
		case "i":
			f.interactive = v
		case "interactive":
			long.interactive = v
		case "sd":
			f.scroll = v
		case "e":
			f.engaged = v
		case "w":
			f.width = v
		case "id":
			f.id = v
		case "title":
			f.title = v
		case "ts":
			f.ts = v
		}
	})
	f.name, f.url, f.domain = firstOf(f.name, long.name), firstOf(f.url, long.url), firstOf(f.domain, long.domain)
	f.referrer, f.hash = firstOf(f.referrer, long.referrer), firstOf(f.hash, long.hash)
	f.interactive = firstOf(f.interactive, long.interactive)
	f.props = firstOf(m, meta, f.props, props)
	return nil
}

// firstOf is the first value that is there.
func firstOf(values ...*fastjson.Value) *fastjson.Value {
	for _, v := range values {
		if v != nil && v.Type() != fastjson.TypeNull {
			return v
		}
	}
	return nil
}

// appendDomains reads the names of the sites that the event is for. Without any it is for the site of the page's host.
func appendDomains(list []string, v *fastjson.Value) ([]string, *fieldError) {
	names, ok := stringOf(v)
	switch {
	case v == nil:
		return append(list, ""), nil
	case !ok:
		return list, &fieldError{"domain", "is invalid", BadField}
	}
	for name := range strings.SplitSeq(names, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if len(list) == maxDomains {
			return list, &fieldError{"domain", "names too many sites", BadField}
		}
		list = append(list, name)
	}
	if len(list) == 0 {
		return list, &fieldError{"domain", "can't be blank", BadField}
	}
	return list, nil
}

// plausibleHit fills h for the site that domain names. The site is nil when there is none of that name.
func (s *Server) plausibleHit(w *work, h *hit, domain string) (site *Site, bad *fieldError) {
	f := &w.plausible.fields
	if bad := h.plausibleURL(f); bad != nil {
		return nil, bad
	}
	if domain != "" {
		site, _ = s.sites.Lookup(domain)
	} else {
		site, _ = s.sites.OfHost(canonicalHost(h.url.Host))
		h.byHost = true
	}
	if bad := h.plausibleName(f); bad != nil {
		return site, bad
	}
	if bad := w.plausibleProps(f); bad != nil {
		return site, bad
	}
	if bad := h.plausibleRest(f); bad != nil {
		return site, bad
	}
	if site != nil {
		h.site, h.event.Site, h.event.Props = site, site.Domain, w.props
	}
	return site, nil
}

func (h *hit) plausibleURL(f *plausibleFields) *fieldError {
	raw, ok := stringOf(f.url)
	raw = strings.TrimSpace(raw)
	switch {
	case !ok:
		return &fieldError{"url", "is invalid", BadField}
	case raw == "":
		return &fieldError{"url", "is required", BadField}
	}
	h.url = schema.SplitURL(raw)
	if h.url.Scheme == "" {
		return nil
	}
	if !isHTTP(h.url.Scheme) {
		return &fieldError{"url", "scheme is not http or https", Scheme}
	}
	if h.url.Host == "" {
		return &fieldError{"url", "has no host", BadField}
	}
	return nil
}

func (h *hit) plausibleName(f *plausibleFields) *fieldError {
	name := ""
	if f.name != nil && (f.name.Type() == fastjson.TypeString || f.name.Type() == fastjson.TypeNumber) {
		name, _ = scalarText(f.name)
		name = cleanText(strings.TrimSpace(name), 4*maxName+1)
	}
	switch {
	case name == "":
		return &fieldError{"event_name", "can't be blank", BadField}
	case longerThan(name, maxName):
		return &fieldError{"event_name", "should be at most 120 character(s)", BadField}
	}
	h.event.Name = name
	if name == schema.Engagement {
		return h.plausibleEngagement(f)
	}
	return nil
}

// plausibleEngagement reads scroll depth (per cent) and engaged time (ms), of which a ping needs one.
func (h *hit) plausibleEngagement(f *plausibleFields) *fieldError {
	const tooLong = 30 * dayMillis
	if f.scroll != nil {
		if depth, err := f.scroll.Float64(); err == nil && depth >= 0 {
			h.event.Scroll = uint8(min(depth, 100))
		}
	}
	engaged := false
	if f.engaged != nil {
		if ms, err := f.engaged.Float64(); err == nil && ms >= 0 && ms < float64(tooLong) {
			h.event.EngagedMS, engaged = uint32(ms), true
		}
	}
	if h.event.Scroll == schema.NoScroll && !engaged {
		return &fieldError{"event_name", "engagement needs scroll depth or engaged time", BadField}
	}
	return nil
}

func (w *work) plausibleProps(f *plausibleFields) *fieldError {
	props := f.props
	if props == nil {
		return nil
	}
	if props.Type() == fastjson.TypeString {
		// Some senders encode the object twice. The inner one lives as long as the strings that point into it.
		inner, err := fastjson.ParseBytes(props.GetStringBytes())
		if err != nil {
			return &fieldError{"props", "must be a map", BadField}
		}
		props = inner
	}
	var problem string
	if w.props, problem = appendProps(w.props, props); problem != "" {
		return &fieldError{"props", problem, BadField}
	}
	return nil
}

func (h *hit) plausibleRest(f *plausibleFields) *fieldError {
	var ok bool
	if h.referrer, ok = stringOf(f.referrer); !ok {
		return &fieldError{"referrer", "is invalid", BadField}
	}
	if title, ok := stringOf(f.title); ok {
		h.event.Title = cleanText(title, MaxTextBytes)
	}
	id, ok := idOf(f.id)
	if !ok {
		return &fieldError{"id", "must be text of 1 to 256 bytes", BadField}
	}
	h.event.EventID = id
	h.hash = isTrue(f.hash)
	if f.width != nil {
		h.screen, _ = scalarText(f.width) // of the window, from trackers of old
	}
	if f.interactive != nil && f.interactive.Type() == fastjson.TypeFalse {
		h.event.Flags |= schema.FlagNonInteractive
	}
	setUnkeyedTime(&h.event, f.ts)
	return nil
}

// idOf reads an event's id; none is an empty one.
func idOf(v *fastjson.Value) (id string, ok bool) {
	if v == nil || v.Type() == fastjson.TypeNull {
		return "", true
	}
	id, ok = scalarText(v)
	return id, ok && id != "" && len(id) <= maxEventID && isClean(id)
}

// isTrue reads a switch that some senders write as 1 and some as true.
func isTrue(v *fastjson.Value) bool {
	if v == nil {
		return false
	}
	n, err := v.Int()
	return v.Type() == fastjson.TypeTrue || err == nil && n == 1
}
