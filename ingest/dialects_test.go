package ingest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// said is what a test lets a sender of any dialect say about one view of example.com.
type said struct{ url, title, referrer string }

// dialect is how a test speaks it.
type dialect struct {
	name    string
	send    func(said) (method, path, body string)
	headers []string
	isJSON  bool // the event is in the body
	titled  bool // it can say a title
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings always marshal
	}
	return string(b)
}

// everyDialect is all that the server speaks.
var everyDialect = []dialect{
	{name: "plausible", isJSON: true, titled: true, send: func(s said) (string, string, string) {
		return http.MethodPost, "/api/event", fmt.Sprintf(`{"n":"pageview","u":%s,"d":"example.com","title":%s,"r":%s}`, quoted(s.url), quoted(s.title), quoted(s.referrer))
	}},
	{name: "native", isJSON: true, titled: true, send: func(s said) (string, string, string) {
		return http.MethodPost, "/v1/events", fmt.Sprintf(`{"site":"example.com","url":%s,"title":%s,"referrer":%s}`, quoted(s.url), quoted(s.title), quoted(s.referrer))
	}},
	{name: "umami", isJSON: true, titled: true, send: func(s said) (string, string, string) {
		return http.MethodPost, "/api/send", umamiBody(s)
	}},
	{name: "umami batch", isJSON: true, titled: true, send: func(s said) (string, string, string) {
		return http.MethodPost, "/api/batch", "[" + umamiBody(s) + "]"
	}},
	{name: "goatcounter", titled: true, headers: []string{"Referer: https://example.com/"}, send: func(s said) (string, string, string) {
		return http.MethodGet, "/count?" + url.Values{"p": {s.url}, "t": {s.title}, "r": {s.referrer}}.Encode(), ""
	}},
	{name: "goatcounter API", isJSON: true, titled: true, headers: []string{bearer(oneOfExample)}, send: func(s said) (string, string, string) {
		return http.MethodPost, "/api/v0/count", fmt.Sprintf(`{"no_sessions":true,"hits":[{"path":%s,"title":%s,"ref":%s}]}`, quoted(s.url), quoted(s.title), quoted(s.referrer))
	}},
	{name: "pixel", titled: true, send: func(s said) (string, string, string) {
		return http.MethodGet, "/pixel.gif?" + url.Values{"site": {"example.com"}, "url": {s.url}, "title": {s.title}, "referrer": {s.referrer}}.Encode(), ""
	}},
}

func umamiBody(s said) string {
	return fmt.Sprintf(`{"type":"event","payload":{"website":"example.com","hostname":"example.com","url":%s,"title":%s,"referrer":%s}}`,
		quoted(s.url), quoted(s.title), quoted(s.referrer))
}

// oneOfExample is the secret of a key for example.com alone, which GoatCounter's API takes the site from.
var oneOfExample = secretPrefix + strings.Repeat("d", 32)

// tell sends it in a dialect.
func (r *rig) tell(d *dialect, s said, headers ...string) reply {
	r.t.Helper()
	method, path, body := d.send(s)
	return r.do(method, path, []byte(body), append(d.headers, headers...)...)
}
