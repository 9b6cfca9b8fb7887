package ingest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// rowsFit reports whether an answer goes with what was journaled: a promise (200 without a reason) needs rows, and a refusal of the
// whole request has none.
func rowsFit(ctx *fasthttp.RequestCtx, rows int) bool {
	counted := ctx.Response.StatusCode()/100 == 2 && len(ctx.Response.Header.Peek(HeaderReason)) == 0
	return ctx.Response.StatusCode() < 500 && counted == (rows > 0)
}

func FuzzUmamiBody(f *testing.F) {
	for _, s := range []string{
		umamiMessage(`"url":"/a?utm_source=x#y","title":"\ud800\u0000","name":"n","tag":"t","screen":"9x9","language":"de","referrer":"https://r.example"`),
		umamiMessage(`"url":"https://example.com/","id":"ann","timestamp":1e9,"ip":"::1","userAgent":"Firefox","data":{"a":{"b":[1]},"c":null}`),
		`{"type":"identify","payload":{"website":"cfbff0d1-9375-5685-968c-48ce8b15ae17"}}`, `{"type":"event","payload":7}`, `[]`, `{`, "\xef\xbb\xbf{}",
	} {
		f.Add([]byte(s), "a.b.c", false)
		f.Add([]byte(s), "", true)
	}
	j := &checkingJournal{t: f}
	handle := handler(f, j)
	f.Fuzz(func(t *testing.T, body []byte, token string, keyed bool) {
		j.t, j.rows = t, 0
		ctx := request("/api/send", body, headerUmamiCache, token)
		if keyed {
			ctx.Request.Header.Set("Authorization", "Bearer "+ingestSecret)
		}
		handle(ctx)
		if !json.Valid(ctx.Response.Body()) || !rowsFit(ctx, j.rows) || j.rows > 1 {
			t.Errorf("status %d with %d rows: %s", ctx.Response.StatusCode(), j.rows, ctx.Response.Body())
		}
	})
}

func FuzzUmamiBatch(f *testing.F) {
	one := umamiMessage(`"url":"/"`)
	for _, s := range []string{"[" + one + "," + one + "]", "[]", "[7]", "[[" + one + "]]", one, "[" + one + ",", `["a]"]`} {
		f.Add([]byte(s))
	}
	j := &checkingJournal{t: f}
	handle := handler(f, j)
	f.Fuzz(func(t *testing.T, body []byte) {
		j.t, j.rows = t, 0
		ctx := request("/api/batch", body)
		handle(ctx)
		var answer umamiBatchReply
		err := json.Unmarshal(ctx.Response.Body(), &answer)
		status := ctx.Response.StatusCode()
		if err != nil || status >= 500 || status != 200 && j.rows > 0 || answer.Size != answer.Processed+answer.Errors || j.rows > answer.Processed || len(answer.Details) != answer.Errors {
			t.Errorf("status %d with %d rows, %v: %s", status, j.rows, err, ctx.Response.Body())
		}
	})
}

func FuzzGoatcounterQuery(f *testing.F) {
	for _, s := range []string{"p=/a&t=T&r=https://r.example&e=1&s=1,2,3&b=0&q=?a=b&ns=1&rnd=x", "p=%ff%00&site=example.com", "p=https://example.com/", "p=/&b=150", "e=on&p=%2F%2Fx", "&&=&p"} {
		f.Add(s, "https://example.com/page", "https://example.com")
		f.Add(s, "", "null")
	}
	j := &checkingJournal{t: f}
	handle := handler(f, j)
	f.Fuzz(func(t *testing.T, query, referer, origin string) {
		j.t, j.rows = t, 0
		ctx := request("/count", nil, "Referer", referer, "Origin", origin)
		ctx.Request.URI().SetQueryString(query)
		handle(ctx)
		if len(ctx.Response.Body()) != len(gif) || !rowsFit(ctx, j.rows) || j.rows > 1 {
			t.Errorf("status %d with %d rows: %s", ctx.Response.StatusCode(), j.rows, ctx.Response.Body())
		}
	})
}

func FuzzGoatcounterBody(f *testing.F) {
	for _, s := range []string{
		`{"hits":[{"path":"/a","title":"T","event":true,"ref":"r","size":[1,2,3],"query":"q","bot":0,"user_agent":"x","location":"US-TX","language":"en","ip":"::1","created_at":"2025-01-01T00:00:00Z","session":"s"},{}]}`,
		`{"no_sessions":true,"filter":[],"site":"example.com","hits":[{"path":"//"}]}`, `{"hits":[[],7,null]}`, `{"hits":{}}`, `{"hits":`, `null`, "",
	} {
		f.Add([]byte(s))
	}
	j := &checkingJournal{t: f}
	handle := handler(f, j)
	f.Fuzz(func(t *testing.T, body []byte) {
		j.t, j.rows = t, 0
		ctx := request("/api/v0/count", body, "Authorization", "Bearer "+ingestSecret)
		handle(ctx)
		var answer struct {
			Status, Error string
			Errors        map[string]string
		}
		err := json.Unmarshal(ctx.Response.Body(), &answer)
		status := ctx.Response.StatusCode()
		said := 0
		for _, is := range []bool{answer.Status != "", answer.Error != "", len(answer.Errors) > 0} {
			if is {
				said++
			}
		}
		if err != nil || status >= 500 || said != 1 || answer.Error != "" && j.rows > 0 || status/100 == 2 != (answer.Status == "ok") {
			t.Errorf("status %d with %d rows, %v: %s", status, j.rows, err, ctx.Response.Body())
		}
	})
}

func FuzzPixelQuery(f *testing.F) {
	for _, s := range []string{"site=example.com&path=/a", "url=https://example.com/%ff", "path=x:y", "url=//&site=example.com", "name=%00&path=/", "title=%ff&referrer=a://b&path=/"} {
		f.Add(s, "https://example.com/page")
		f.Add(s, "")
	}
	j := &checkingJournal{t: f}
	handle := handler(f, j)
	f.Fuzz(func(t *testing.T, query, referer string) {
		j.t, j.rows = t, 0
		ctx := request("/pixel.gif", nil, "Referer", referer)
		ctx.Request.Header.SetMethod(http.MethodGet)
		ctx.Request.URI().SetQueryString(query)
		handle(ctx)
		if len(ctx.Response.Body()) != len(gif) || !rowsFit(ctx, j.rows) || j.rows > 1 {
			t.Errorf("status %d with %d rows: %s", ctx.Response.StatusCode(), j.rows, ctx.Response.Body())
		}
	})
}

// A token is only what was signed, whatever else comes.
func FuzzUmamiToken(f *testing.F) {
	tokens := umamiTokens{newSecret()}
	signed := tokens.sign(umamiToken{WebsiteID: "w", SessionID: "s", VisitID: "v", IssuedAt: 1})
	for _, s := range []string{"", ".", "..", signed[:len(signed)-2], strings.ToUpper(signed), tokenHeader + ".e30." + strings.Repeat("A", 43)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if token, err := tokens.parse(s); err == nil && s != signed {
			t.Errorf("%q is believed: %+v", s, token)
		}
	})
}
