package ingest

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/pagetally/pagetally/schema"
)

// Types of an Umami message. Only events are counted; the others are judged and answered alike.
const (
	umamiEvent       = "event"
	umamiIdentify    = "identify"
	umamiPerformance = "performance"
)

// Limits of the dialect, in characters.
const (
	maxUmamiHost     = 100
	maxUmamiName     = 50
	maxUmamiTag      = 50
	maxUmamiLanguage = 35
	maxUmamiScreen   = 11
	maxUmamiProps    = 50
	maxUmamiValue    = 500 // longer values of data are cut, as Umami cuts them
)

// umamiFields are the keys of a payload that mean something; the rest are ignored, among them browser, os and device, which are read
// from the agent, and the measurements of a performance message.
type umamiFields struct {
	website, hostname, url, referrer, title, language, screen, name, tag, data, id, timestamp, ip, userAgent *fastjson.Value
}

func (f *umamiFields) of(key string) **fastjson.Value {
	switch key {
	case "website":
		return &f.website
	case "hostname":
		return &f.hostname
	case "url":
		return &f.url
	case "referrer":
		return &f.referrer
	case "title":
		return &f.title
	case "language":
		return &f.language
	case "screen":
		return &f.screen
	case "name":
		return &f.name
	case "tag":
		return &f.tag
	case "data":
		return &f.data
	case "id":
		return &f.id
	case "timestamp":
		return &f.timestamp
	case "ip":
		return &f.ip
	case "userAgent":
		return &f.userAgent
	}
	return nil
}

// decode reads a message into h and says of which type it is.
func (r *umamiRequest) decode(h *hit, body []byte) (kind string, bad *fieldError) {
	if len(body) > MaxEventBytes {
		return "", &fieldError{"message", "is larger than 64 KiB", TooLarge}
	}
	v, err := r.work.parser.ParseBytes(body)
	if err != nil {
		return "", &fieldError{"body", "is not JSON", BadRequest}
	}
	if v.Type() != fastjson.TypeObject {
		return "", &fieldError{"body", "is not an object", BadRequest}
	}
	switch kind = string(v.GetStringBytes("type")); kind {
	case umamiEvent, umamiIdentify, umamiPerformance:
	default:
		return "", &fieldError{"type", "must be event, identify or performance", BadField}
	}
	payload := v.GetObject("payload")
	if payload == nil {
		return "", &fieldError{"payload", "must be an object", BadField}
	}
	var f umamiFields
	payload.Visit(func(key []byte, v *fastjson.Value) {
		if field := f.of(text(key)); field != nil && v.Type() != fastjson.TypeNull {
			*field = v
		}
	})
	return kind, r.fill(h, kind, &f)
}

func (r *umamiRequest) fill(h *hit, kind string, f *umamiFields) *fieldError {
	if bad := h.umamiPage(kind, f); bad != nil {
		return bad
	}
	if bad := r.fillSite(h, f); bad != nil {
		return bad
	}
	if bad := h.umamiTexts(f); bad != nil {
		return bad
	}
	if bad := r.fillCaller(h, f); bad != nil {
		return bad
	}
	if kind != umamiEvent {
		return nil
	}
	return r.fillProps(h, f)
}

// umamiPage reads url and hostname. Trackers send the URL whole or without its host, which hostname then holds.
func (h *hit) umamiPage(kind string, f *umamiFields) *fieldError {
	host, bad := umamiText(f.hostname, "hostname", maxUmamiHost)
	if bad != nil {
		return bad
	}
	raw, ok := stringOf(f.url)
	raw = strings.TrimSpace(raw)
	switch {
	case !ok:
		return &fieldError{"url", "must be text", BadField}
	case raw == "" && kind == umamiEvent:
		return &fieldError{"url", "is required", BadField}
	}
	h.url = schema.SplitURL(raw)
	switch {
	case h.url.Scheme == "" && host != "":
		h.url.Scheme, h.url.Host = "https", host
	case h.url.Scheme == "":
	case !isHTTP(h.url.Scheme):
		return &fieldError{"url", "scheme is not http or https", Scheme}
	case h.url.Host == "":
		return &fieldError{"url", "has no host", BadField}
	}
	return nil
}

func (r *umamiRequest) fillSite(h *hit, f *umamiFields) *fieldError {
	name, ok := stringOf(f.website)
	if name = strings.TrimSpace(name); !ok || name == "" {
		return &fieldError{"website", "is required", BadField}
	}
	h.site, _ = r.server.sites.website(name, canonicalHost(h.url.Host))
	if h.site != nil && !r.rights.key.MayWrite(h.site.Domain) {
		return &fieldError{"website", "is not the key's", KeySite}
	}
	return nil
}

func (h *hit) umamiTexts(f *umamiFields) (bad *fieldError) {
	name, bad := umamiText(f.name, "name", maxUmamiName)
	switch {
	case bad != nil:
		return bad
	case name == "" && f.name != nil && len(f.name.GetStringBytes()) > 0: // not a view because its name cannot be read
		return &fieldError{"name", "is blank", BadField}
	case name == schema.PageView || name == schema.Engagement:
		return &fieldError{"name", "is reserved", BadField}
	case name != "":
		h.event.Name = name
	}
	title, ok := stringOf(f.title)
	if !ok {
		return &fieldError{"title", "must be text", BadField}
	}
	h.event.Title = cleanText(title, MaxTextBytes)
	if h.referrer, ok = stringOf(f.referrer); !ok {
		return &fieldError{"referrer", "must be text", BadField}
	}
	if h.screen, bad = umamiText(f.screen, "screen", maxUmamiScreen); bad != nil {
		return bad
	}
	language, bad := umamiText(f.language, "language", maxUmamiLanguage)
	if language != "" {
		h.language = language
	}
	return bad
}

// fillCaller reads what tells the visitor and the time. An address or an agent of another is believed from keyed callers only.
func (r *umamiRequest) fillCaller(h *hit, f *umamiFields) *fieldError {
	switch {
	case r.rights.keyed:
	case f.ip != nil:
		return &fieldError{"ip", "needs an API key", NeedsKey}
	case f.userAgent != nil:
		return &fieldError{"userAgent", "needs an API key", NeedsKey}
	}
	if f.id != nil {
		id, ok := scalarText(f.id)
		if !ok {
			return &fieldError{"id", "must be text", BadField}
		}
		h.person = cleanText(id, maxEventID)
	}
	if r.rights.keyed {
		return r.fillKeyed(h, f)
	}
	return setUmamiTime(h, f.timestamp, false)
}

// fillKeyed makes the event that of a caller with a key: its own, not the connection's.
func (r *umamiRequest) fillKeyed(h *hit, f *umamiFields) *fieldError {
	h.keyed = true
	if !r.rights.local || f.ip != nil || f.userAgent != nil {
		h.ip, h.agent, h.judged, h.prefetch, h.origin = netip.Addr{}, "", false, false, ""
		if f.language == nil {
			h.language = ""
		}
	}
	if problem := fillAgent(h, &nativeFields{ip: f.ip, userAgent: f.userAgent}); problem != nil {
		if problem.Field != "ip" {
			problem.Field = "userAgent"
		}
		return &fieldError{problem.Field, problem.Message, problem.Reason}
	}
	return setUmamiTime(h, f.timestamp, true)
}

// setUmamiTime reads Unix seconds.
func setUmamiTime(h *hit, v *fastjson.Value, keyed bool) *fieldError {
	if v == nil {
		return nil
	}
	const farAhead = 1 << 40 // seconds; more would not fit in milliseconds
	seconds, err := v.Float64()
	ok := err == nil && seconds > -farAhead && seconds < farAhead
	ms := int64(0)
	if ok {
		ms = int64(seconds * 1000)
	}
	if !keyed {
		setUnkeyedMillis(&h.event, ms, ok)
		return nil
	}
	if !ok {
		return &fieldError{"timestamp", "must be Unix seconds", BadField}
	}
	if problem := setKeyedMillis(&h.event, ms); problem != nil {
		return &fieldError{"timestamp", problem.Message, problem.Reason}
	}
	return nil
}

// fillProps makes properties of data, nested ones under the path of their keys, and of tag.
func (r *umamiRequest) fillProps(h *hit, f *umamiFields) *fieldError {
	tag, bad := umamiText(f.tag, "tag", maxUmamiTag)
	if bad != nil {
		return bad
	}
	list := r.work.props
	if f.data != nil {
		object, err := f.data.Object()
		if err != nil {
			return &fieldError{"data", "must be an object", BadField}
		}
		list = appendFlat(list, "", object)
	}
	if tag != "" {
		list = setProp(list, schema.Prop{Key: "tag", Value: tag})
	}
	r.work.props = list
	if len(list) > maxUmamiProps {
		return &fieldError{"data", "must not have more than 50 properties", BadField}
	}
	for i := range list {
		if longerThan(list[i].Key, maxPropKey) {
			return &fieldError{"data", "keys must not be longer than 300 characters", BadField}
		}
	}
	h.event.Props = list
	return nil
}

// appendFlat appends the values of an object and of the objects in it, "a.b" for b in a. Lists are kept as JSON, null and blank values
// left out. It stops behind the limit, which the caller reports.
func appendFlat(list []schema.Prop, prefix string, object *fastjson.Object) []schema.Prop {
	object.Visit(func(key []byte, v *fastjson.Value) {
		name := cleanText(prefix+text(key), 8*maxPropKey)
		if v.Type() == fastjson.TypeObject {
			list = appendFlat(list, name+".", v.GetObject())
			return
		}
		value, ok := scalarText(v)
		if v.Type() == fastjson.TypeArray {
			value, ok = string(v.MarshalTo(nil)), true
		}
		if ok && value != "" && name != "" && len(list) <= maxUmamiProps {
			list = setProp(list, schema.Prop{Key: name, Value: cutCharacters(cleanText(value, 4*maxUmamiValue), maxUmamiValue)})
		}
	})
	return list
}

// cutCharacters cuts s to at most limit characters.
func cutCharacters(s string, limit int) string {
	for i := range s {
		if limit == 0 {
			return s[:i]
		}
		limit--
	}
	return s
}

// umamiText reads an optional text of at most limit characters.
func umamiText(v *fastjson.Value, field string, limit int) (string, *fieldError) {
	s, ok := stringOf(v)
	s = cleanText(strings.TrimSpace(s), 4*limit+1)
	if !ok || longerThan(s, limit) {
		return "", &fieldError{field, "must be text of at most " + strconv.Itoa(limit) + " characters", BadField}
	}
	return s, nil
}
