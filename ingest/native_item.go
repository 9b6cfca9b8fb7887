package ingest

import (
	"net/netip"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/pagetally/pagetally/schema"
)

// nativeFields are the keys of an item; unknown ones are ignored.
type nativeFields struct {
	id, site, name, url, path, title, referrer, props, n, ts, ip, userAgent, screen, language *fastjson.Value
}

func parseNative(p *fastjson.Parser, item []byte) (f nativeFields, problem *itemError) {
	v, err := p.ParseBytes(item)
	if err != nil {
		return f, &itemError{Reason: BadRequest, Message: "is not JSON"}
	}
	object, err := v.Object()
	if err != nil {
		return f, &itemError{Reason: BadRequest, Message: "is not an object"}
	}
	object.Visit(func(key []byte, v *fastjson.Value) {
		if v.Type() == fastjson.TypeNull {
			v = nil // as if it were not there
		}
		if field := f.of(text(key)); field != nil {
			*field = v
		}
	})
	return f, nil
}

func (f *nativeFields) of(key string) **fastjson.Value {
	switch key {
	case "id":
		return &f.id
	case "site":
		return &f.site
	case "name":
		return &f.name
	case "url":
		return &f.url
	case "path":
		return &f.path
	case "title":
		return &f.title
	case "referrer":
		return &f.referrer
	case "props":
		return &f.props
	case "n":
		return &f.n
	case "ts":
		return &f.ts
	case "ip":
		return &f.ip
	case "user_agent":
		return &f.userAgent
	case "screen":
		return &f.screen
	case "language":
		return &f.language
	}
	return nil
}

// fill reads the fields into h, in the order in which mistakes are reported.
func (b *batch) fill(h *hit, f *nativeFields) *itemError {
	for _, read := range []func(*hit, *nativeFields) *itemError{
		b.fillSite, b.fillPage, b.fillName, b.fillTexts, b.fillProps, b.fillID, b.checkRights, b.fillKeyed,
	} {
		if problem := read(h, f); problem != nil {
			return problem
		}
	}
	return nil
}

func (b *batch) fillSite(h *hit, f *nativeFields) *itemError {
	name, ok := stringOf(f.site)
	if name = strings.TrimSpace(name); !ok || name == "" {
		return badField("site", "is required")
	}
	site, ok := b.server.sites.Lookup(name)
	if !ok {
		return &itemError{Field: "site", Reason: UnknownSite}
	}
	h.site, h.event.Site = site, site.Domain
	if !b.rights.key.MayWrite(site.Domain) {
		return &itemError{Field: "site", Reason: KeySite, Message: "the key is for other sites"}
	}
	return nil
}

func (b *batch) fillPage(h *hit, f *nativeFields) *itemError {
	if f.url != nil && f.path != nil {
		return badField("path", "excludes url")
	}
	if f.path != nil {
		path, ok := stringOf(f.path)
		if !ok || path == "" {
			return badField("path", "must be text")
		}
		h.url = schema.SplitURL(path)
		if h.url.Scheme != "" {
			return badField("path", "is a URL, which belongs in url")
		}
		return nil
	}
	raw, ok := stringOf(f.url)
	if raw = strings.TrimSpace(raw); !ok || raw == "" {
		return badField("url", "is required, or path")
	}
	h.url = schema.SplitURL(raw)
	switch {
	case h.url.Scheme == "":
		return badField("url", "has no scheme; a path alone belongs in path")
	case !isHTTP(h.url.Scheme):
		return &itemError{Field: "url", Reason: Scheme, Message: "scheme is not http or https"}
	case h.url.Host == "":
		return badField("url", "has no host")
	}
	return nil
}

func (b *batch) fillName(h *hit, f *nativeFields) *itemError {
	if f.name == nil {
		return nil
	}
	name, ok := stringOf(f.name)
	name = cleanText(strings.TrimSpace(name), 4*maxName+1)
	switch {
	case !ok || name == "" || longerThan(name, maxName):
		return badField("name", "must be text of 1 to 120 characters")
	case name == schema.Engagement:
		return badField("name", "is reserved")
	}
	h.event.Name = name
	return nil
}

func (b *batch) fillTexts(h *hit, f *nativeFields) *itemError {
	title, ok := stringOf(f.title)
	if !ok {
		return badField("title", "must be text")
	}
	h.event.Title = cleanText(title, MaxTextBytes)
	if h.referrer, ok = stringOf(f.referrer); !ok {
		return badField("referrer", "must be text")
	}
	if f.screen != nil {
		if h.screen, ok = scalarText(f.screen); !ok {
			return badField("screen", "must be WIDTHxHEIGHT or a width")
		}
	}
	if f.language != nil {
		if h.language, ok = stringOf(f.language); !ok {
			return badField("language", "must be text")
		}
	} else if b.rights.keyed && !b.rights.local {
		h.language = "" // the job's own
	}
	return nil
}

func (b *batch) fillProps(h *hit, f *nativeFields) *itemError {
	if f.props == nil {
		return nil
	}
	var problem string
	if b.work.props, problem = appendProps(b.work.props, f.props); problem != "" {
		return badField("props", problem)
	}
	h.event.Props = b.work.props
	return nil
}

func (b *batch) fillID(h *hit, f *nativeFields) *itemError {
	id, ok := idOf(f.id)
	if !ok {
		return badField("id", "must be text of 1 to 256 bytes")
	}
	h.event.EventID, h.event.Namespace = id, b.rights.key.ID
	return nil
}

// checkRights refuses what only keyed callers may say: rule P10 of the product's promises.
func (b *batch) checkRights(_ *hit, f *nativeFields) *itemError {
	if b.rights.keyed {
		return nil
	}
	switch {
	case f.ts != nil:
		return &itemError{Field: "ts", Reason: NeedsKey}
	case f.ip != nil:
		return &itemError{Field: "ip", Reason: NeedsKey}
	case f.userAgent != nil:
		return &itemError{Field: "user_agent", Reason: NeedsKey}
	case f.n != nil:
		return &itemError{Field: "n", Reason: NeedsKey}
	}
	return nil
}

// fillKeyed reads what only keyed callers may say. An event of theirs is its own, not the connection's.
func (b *batch) fillKeyed(h *hit, f *nativeFields) *itemError {
	if !b.rights.keyed {
		return nil
	}
	h.keyed, h.judged, h.prefetch, h.origin = true, false, false, ""
	if !b.rights.local || f.ip != nil || f.userAgent != nil {
		h.agent = ""
		h.ip = netip.Addr{}
	}
	if problem := fillAgent(h, f); problem != nil {
		return problem
	}
	if f.n != nil {
		n, err := f.n.Int64()
		if err != nil || n == 0 || n > schema.MaxN || n < -schema.MaxN {
			return badField("n", "must be a whole number other than 0 within ±1000000000")
		}
		h.event.N = n
	}
	if f.ts != nil {
		return setKeyedTime(&h.event, f.ts)
	}
	return nil
}

func fillAgent(h *hit, f *nativeFields) *itemError {
	if f.ip != nil {
		s, _ := stringOf(f.ip)
		addr, ok := parseAddress(s)
		if !ok {
			return badField("ip", "is not an address")
		}
		h.ip = addr
	}
	if f.userAgent != nil {
		agent, ok := stringOf(f.userAgent)
		if !ok {
			return badField("user_agent", "must be text")
		}
		h.agent = strings.TrimSpace(agent)
		h.judged = h.agent != "" // a named agent is judged like a browser's
	}
	return nil
}

func badField(field, message string) *itemError {
	return &itemError{Field: field, Reason: BadField, Message: message}
}
