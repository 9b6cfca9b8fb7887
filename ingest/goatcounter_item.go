package ingest

import (
	"net/netip"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/pagetally/pagetally/schema"
)

// goatcounterItem are the keys of a hit that mean something.
type goatcounterItem struct {
	path, title, event, ref, size, query, bot, userAgent, location, language, ip, createdAt, session *fastjson.Value
}

func (f *goatcounterItem) of(key string) **fastjson.Value {
	switch key {
	case "path":
		return &f.path
	case "title":
		return &f.title
	case "event":
		return &f.event
	case "ref":
		return &f.ref
	case "size":
		return &f.size
	case "query":
		return &f.query
	case "bot":
		return &f.bot
	case "user_agent":
		return &f.userAgent
	case "location":
		return &f.location
	case "language":
		return &f.language
	case "ip":
		return &f.ip
	case "created_at":
		return &f.createdAt
	case "session":
		return &f.session
	}
	return nil
}

func (g *goatcounterCall) parse(item []byte) (f goatcounterItem, bad *fieldError) {
	if len(item) > MaxEventBytes {
		return f, &fieldError{"hit", "is larger than 64 KiB", TooLarge}
	}
	v, err := g.work.parser.ParseBytes(item)
	if err != nil {
		return f, &fieldError{"hit", "is not JSON", BadRequest}
	}
	object, err := v.Object()
	if err != nil {
		return f, &fieldError{"hit", "is not an object", BadRequest}
	}
	object.Visit(func(key []byte, v *fastjson.Value) {
		if field := f.of(text(key)); field != nil && v.Type() != fastjson.TypeNull {
			*field = v
		}
	})
	return f, nil
}

// fill reads the fields into h.
func (g *goatcounterCall) fill(h *hit, f *goatcounterItem) *fieldError {
	if bad := g.fillCaller(h, f); bad != nil {
		return bad
	}
	fields, bad := f.read()
	if bad != nil {
		return bad
	}
	fields.noSession = g.noSessions
	return fields.fill(h, schema.URLParts{})
}

// read takes the fields that say what was seen.
func (f *goatcounterItem) read() (g goatcounterFields, bad *fieldError) {
	for _, field := range []struct {
		name string
		v    *fastjson.Value
		to   *string
	}{{"path", f.path, &g.path}, {"title", f.title, &g.title}, {"ref", f.ref, &g.referrer}, {"query", f.query, &g.query}} {
		var ok bool
		if *field.to, ok = stringOf(field.v); !ok {
			return g, &fieldError{field.name, "must be text", BadField}
		}
	}
	g.path = strings.TrimSpace(g.path)
	if f.event != nil {
		s, _ := scalarText(f.event)
		var ok bool
		if g.event, ok = switchOf(s); !ok {
			return g, &fieldError{"event", "must be true or false", BadField}
		}
	}
	if f.bot != nil {
		var err error
		if g.bot, err = f.bot.Int(); err != nil || g.bot < 0 || g.bot > 255 {
			return g, &fieldError{"bot", "must be a number from 0 to 255", BadField}
		}
	}
	g.screen = sizeOf(f.size)
	return g, nil
}

// sizeOf is the width of a size: the first number of a list, a text such as "1920,1080,1", or a number.
func sizeOf(v *fastjson.Value) string {
	if v != nil && v.Type() == fastjson.TypeArray {
		v = v.Get("0")
	}
	if v == nil {
		return ""
	}
	s, _ := scalarText(v)
	return s
}

// fillCaller reads who saw it and when. A hit needs a session, or address and agent, by which visitors are told apart, unless the call
// counts without them.
func (g *goatcounterCall) fillCaller(h *hit, f *goatcounterItem) *fieldError {
	h.ip, h.agent, h.language = netip.Addr{}, "", ""
	if problem := fillAgent(h, &nativeFields{ip: f.ip, userAgent: f.userAgent}); problem != nil {
		return &fieldError{problem.Field, problem.Message, problem.Reason}
	}
	session, ok := stringOf(f.session)
	if !ok {
		return &fieldError{"session", "must be text", BadField}
	}
	h.person = cleanText(session, maxEventID)
	if !g.noSessions && h.person == "" && (!h.ip.IsValid() || h.agent == "") {
		return &fieldError{"session", "is required, or ip and user_agent, or no_sessions", BadField}
	}
	if h.language, ok = stringOf(f.language); !ok {
		return &fieldError{"language", "must be text", BadField}
	}
	if f.createdAt == nil {
		return nil
	}
	if problem := setKeyedTime(&h.event, f.createdAt); problem != nil {
		return &fieldError{"created_at", problem.Message, problem.Reason}
	}
	return nil
}

// countryOf is the country of a location, "DE" or "US-TX" (ISO 3166-1 alpha-2, ISO 3166-2); empty when it is none.
func countryOf(v *fastjson.Value) string {
	if v == nil {
		return ""
	}
	country, _, _ := strings.Cut(text(v.GetStringBytes()), "-")
	if len(country) != 2 || country[0] < 'A' || country[0] > 'Z' || country[1] < 'A' || country[1] > 'Z' {
		return ""
	}
	return country
}
