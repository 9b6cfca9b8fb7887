package ingest

import (
	flags "flag"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pagetally/pagetally/schema"
)

var updateReadme = flags.Bool("update", false, "rewrite generated text")

// dialectColumns are the ways in. Each asks for a view of example.com/a with something extra: members of its JSON object, or
// parameters of its query.
var dialectColumns = []struct {
	name string
	ask  func(r *rig, extra string, headers ...string) reply
}{
	{"Plausible `/api/event`", func(r *rig, extra string, headers ...string) reply {
		return r.do(http.MethodPost, "/api/event", []byte(members(`"n":"pageview","u":"https://example.com/a","d":"example.com"`, extra)), headers...)
	}},
	{"Umami `/api/send`", func(r *rig, extra string, headers ...string) reply {
		payload := members(`"website":"example.com","hostname":"example.com","url":"/a"`, extra)
		return r.do(http.MethodPost, "/api/send", []byte(`{"type":"event","payload":`+payload+`}`), headers...)
	}},
	{"GoatCounter `/count`", func(r *rig, extra string, headers ...string) reply {
		return r.do(http.MethodGet, "/count?"+extra+"&p=/a", nil, append([]string{examplePage}, headers...)...)
	}},
	{"GoatCounter `/api/v0/count`", func(r *rig, extra string, headers ...string) reply {
		hit := members(`"path":"/a","session":"s"`, extra)
		return r.do(http.MethodPost, "/api/v0/count?site=example.com", []byte(`{"hits":[`+hit+`]}`), append(headers, bearer(ingestSecret))...)
	}},
	{"image `/pixel.gif`", func(r *rig, extra string, headers ...string) reply {
		return r.do(http.MethodGet, "/pixel.gif?"+extra+"&site=example.com&path=/a", nil, headers...)
	}},
	{"own `/v1/events`", func(r *rig, extra string, headers ...string) reply {
		return r.do(http.MethodPost, "/v1/events", []byte(members(`"site":"example.com","url":"https://example.com/a"`, extra)), append(headers, bearer(ingestSecret))...)
	}},
}

func members(base, extra string) string { return "{" + strings.TrimSuffix(base+","+extra, ",") + "}" }

// dialectCell is what one dialect does about a feature: how the table shows it, and what is asked to see that it holds.
type dialectCell struct {
	shown   string // "" when the dialect has no such thing
	extra   string
	headers []string
	ask     func(r *rig) reply // instead of the column's
}

// dialectRow is a feature: whether it holds is seen in what was journaled and answered.
type dialectRow struct {
	feature string
	holds   func(events []schema.Event, got reply) bool
	cells   [6]dialectCell
}

// one is a feature that shows in the only event that was journaled.
func one(holds func(e schema.Event) bool) func([]schema.Event, reply) bool {
	return func(events []schema.Event, _ reply) bool { return len(events) == 1 && holds(events[0]) }
}

func dialectRows() []dialectRow {
	hourAgo := time.Now().Add(-time.Hour).Truncate(time.Second)
	iso, unix := hourAgo.UTC().Format(time.RFC3339), hourAgo.Unix()
	const agent = `Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0`
	bot := []string{"User-Agent: Googlebot/2.1"}
	none := dialectCell{}
	return []dialectRow{
		{"page view", one(func(e schema.Event) bool { return e.Name == schema.PageView && e.Path == "/a" && e.N == 1 }), [6]dialectCell{
			{shown: "`u`"}, {shown: "`url`, `hostname`"}, {shown: "`p`"}, {shown: "`path`"}, {shown: "`url`, `path`, or the Referer"}, {shown: "`url` or `path`"},
		}},
		{"site", one(func(e schema.Event) bool { return e.Site == "example.org" }), [6]dialectCell{
			{shown: "`d`, else the page's host", extra: `"d":null,"u":"https://example.org/"`},
			{shown: "`website`: domain or UUID", extra: `"website":"` + WebsiteID("example.org") + `","hostname":"example.org"`},
			{shown: "`site`, else the page's host", headers: []string{"Referer: https://example.org/"}},
			{shown: "`site`, else the key's", ask: func(r *rig) reply {
				return r.do(http.MethodPost, "/api/v0/count", []byte(`{"hits":[{"path":"/a","session":"s"}]}`), bearer(oneSite))
			}},
			{shown: "`site`, else the page's host", ask: func(r *rig) reply { return r.do(http.MethodGet, "/pixel.gif", nil, "Referer: https://example.org/a") }},
			{shown: "`site`", extra: `"site":"example.org","url":"https://example.org/"`},
		}},
		{"several sites at once", func(events []schema.Event, _ reply) bool { return len(events) == 2 }, [6]dialectCell{
			{shown: "`d`, by comma", extra: `"d":"example.com,example.org","u":"/a"`}, none, none, none, none, none,
		}},
		{"custom event", one(func(e schema.Event) bool { return e.Name == "Signup" }), [6]dialectCell{
			{shown: "`n`", extra: `"n":"Signup"`}, {shown: "`name`", extra: `"name":"Signup"`}, {shown: "`e`", extra: "e=1&p=Signup"},
			{shown: "`event`", extra: `"event":true,"path":"Signup"`}, {shown: "`name`", extra: "name=Signup"}, {shown: "`name`", extra: `"name":"Signup"`},
		}},
		{"properties", one(func(e schema.Event) bool { return cmp.Equal(e.Props, []schema.Prop{{Key: "plan", Value: "pro"}}) }), [6]dialectCell{
			{shown: "`p`, `m`", extra: `"p":{"plan":"pro"}`}, {shown: "`data`, `tag`", extra: `"data":{"plan":"pro"}`}, none, none, none, {shown: "`props`", extra: `"props":{"plan":"pro"}`},
		}},
		{"title", one(func(e schema.Event) bool { return e.Title == "T" }), [6]dialectCell{
			{shown: "`title`", extra: `"title":"T"`}, {shown: "`title`", extra: `"title":"T"`}, {shown: "`t`", extra: "t=T"},
			{shown: "`title`", extra: `"title":"T"`}, {shown: "`title`", extra: "title=T"}, {shown: "`title`", extra: `"title":"T"`},
		}},
		{"referrer", one(func(e schema.Event) bool { return e.Referrer == "https://ref.example/" }), [6]dialectCell{
			{shown: "`r`", extra: `"r":"https://ref.example/"`}, {shown: "`referrer`", extra: `"referrer":"https://ref.example/"`}, {shown: "`r`", extra: "r=https://ref.example/"},
			{shown: "`ref`", extra: `"ref":"https://ref.example/"`}, {shown: "`referrer`", extra: "referrer=https://ref.example/"}, {shown: "`referrer`", extra: `"referrer":"https://ref.example/"`},
		}},
		{"campaign", one(func(e schema.Event) bool { return e.UTMSource == "news" && e.Path == "/a" }), [6]dialectCell{
			{shown: "in `u`", extra: `"u":"https://example.com/a?utm_source=news"`}, {shown: "in `url`", extra: `"url":"/a?utm_source=news"`},
			{shown: "`q`, or in `p`", extra: "q=%3Futm_source%3Dnews"}, {shown: "`query`, or in `path`", extra: `"query":"utm_source=news"`},
			{shown: "in `url` or `path`", extra: "path=/a%3Futm_source%3Dnews"}, {shown: "in `url` or `path`", extra: `"url":"https://example.com/a?utm_source=news"`},
		}},
		{"page in the fragment", one(func(e schema.Event) bool { return e.Path == "/a#tab" }), [6]dialectCell{
			{shown: "`h`, or the site's setting", extra: `"u":"https://example.com/a#tab","h":1`},
			{shown: "the site's setting", extra: `"website":"hash.example","hostname":"hash.example","url":"/a#tab"`},
			{shown: "the site's setting", extra: "p=/a%23tab", headers: []string{"Referer: https://hash.example/"}},
			{shown: "the site's setting", ask: func(r *rig) reply {
				return r.do(http.MethodPost, "/api/v0/count?site=hash.example", []byte(`{"hits":[{"path":"/a#tab","session":"s"}]}`), bearer(ingestSecret))
			}},
			{shown: "the site's setting", extra: "site=hash.example&path=/a%23tab"},
			{shown: "the site's setting", extra: `"site":"hash.example","url":"https://hash.example/a#tab"`},
		}},
		{"screen", one(func(e schema.Event) bool { return e.Screen == "Mobile" }), [6]dialectCell{
			{shown: "`w`", extra: `"w":390`}, {shown: "`screen`", extra: `"screen":"390x844"`}, {shown: "`s`", extra: "s=390,844,3"},
			{shown: "`size`", extra: `"size":[390,844,3]`}, none, {shown: "`screen`", extra: `"screen":"390x844"`},
		}},
		{"language", one(func(e schema.Event) bool { return e.Language == "pt-BR" }), [6]dialectCell{
			{shown: "the browser's", headers: []string{"Accept-Language: pt-br"}}, {shown: "`language`, else the browser's", extra: `"language":"pt-BR"`},
			{shown: "the browser's", headers: []string{"Accept-Language: pt-br"}}, {shown: "`language`", extra: `"language":"pt-BR"`},
			{shown: "the browser's", headers: []string{"Accept-Language: pt-br"}}, {shown: "`language`", extra: `"language":"pt-BR"`},
		}},
		{"event id (counts once)", one(func(e schema.Event) bool { return e.EventID == "e1" }), [6]dialectCell{
			{shown: "`id`", extra: `"id":"e1"`}, none, none, none, none, {shown: "`id`, `Idempotency-Key`", extra: `"id":"e1"`},
		}},
		{"time", one(func(e schema.Event) bool { return e.TS == unix*1000 }), [6]dialectCell{
			{shown: "`ts`, a week at most", extra: `"ts":"` + iso + `"`}, {shown: "`timestamp`, a week at most or with a key", extra: fmt.Sprintf(`"timestamp":%d`, unix)}, none,
			{shown: "`created_at`", extra: `"created_at":"` + iso + `"`}, none, {shown: "`ts`, with a key", extra: `"ts":"` + iso + `"`},
		}},
		{"address and agent of another", one(func(e schema.Event) bool { return e.Browser == "Firefox" && e.Visitor != 0 }), [6]dialectCell{
			none, {shown: "`ip`, `userAgent`, with a key", extra: `"ip":"192.0.2.1","userAgent":"` + agent + `"`, headers: []string{bearer(ingestSecret)}}, none,
			{shown: "`ip`, `user_agent`", extra: `"ip":"192.0.2.1","user_agent":"` + agent + `"`}, none,
			{shown: "`ip`, `user_agent`, with a key", extra: `"ip":"192.0.2.1","user_agent":"` + agent + `"`},
		}},
		{"visitor named by the sender", sameVisitor, [6]dialectCell{
			none, {shown: "`id`", ask: func(r *rig) reply {
				r.send(200, umamiMessage(`"url":"/a","id":"ann"`))
				return r.send(200, umamiMessage(`"url":"/a","id":"ann"`), "User-Agent: "+agent)
			}}, none, {shown: "`session`", ask: func(r *rig) reply {
				return r.hits(202, `{"hits":[{"path":"/","session":"s"},{"path":"/","session":"s"}]}`)
			}}, none, none,
		}},
		{"count without visitor", one(func(e schema.Event) bool { return e.Visitor == 0 }), [6]dialectCell{
			none, none, {shown: "`ns`", extra: "ns=1"}, {shown: "`no_sessions`", ask: func(r *rig) reply { return r.hits(202, `{"no_sessions":true,"hits":[{"path":"/"}]}`) }}, none,
			{shown: "without `ip` and `user_agent`, with a key"},
		}},
		{"deltas", one(func(e schema.Event) bool { return e.N == -3 }), [6]dialectCell{none, none, none, none, none, {shown: "`n`, with a key", extra: `"n":-3`}}},
		{"scroll depth, engaged time", one(func(e schema.Event) bool { return e.Scroll == 40 && e.EngagedMS == 5000 }), [6]dialectCell{
			{shown: "`sd`, `e`", extra: `"n":"engagement","sd":40,"e":5000`}, none, none, none, none, none,
		}},
		{"event that ends no bounce", one(func(e schema.Event) bool { return e.Flags&schema.FlagNonInteractive != 0 }), [6]dialectCell{
			{shown: "`i`", extra: `"n":"tick","i":false`}, none, none, none, none, none,
		}},
		{"batch", func(events []schema.Event, _ reply) bool { return len(events) == 2 }, [6]dialectCell{
			none, {shown: "`/api/batch`, 10,000", ask: func(r *rig) reply {
				return r.do(http.MethodPost, "/api/batch", []byte("["+umamiMessage(`"url":"/1"`)+","+umamiMessage(`"url":"/2"`)+"]"))
			}}, none, {shown: "500", ask: func(r *rig) reply {
				return r.hits(202, `{"hits":[{"path":"/1","session":"s"},{"path":"/2","session":"s"}]}`)
			}}, none,
			{shown: "10,000", ask: func(r *rig) reply {
				return r.do(http.MethodPost, "/v1/events", []byte(`[{"site":"example.com","path":"/1"},{"site":"example.com","path":"/2"}]`), bearer(ingestSecret))
			}},
		}},
		{"gzip, zstd", func(events []schema.Event, _ reply) bool {
			return len(events) == 2 && events[0].Path+events[1].Path == "/z/z"
		}, [6]dialectCell{
			{shown: "yes", ask: zipped("/api/event", `{"n":"pageview","u":"/z","d":"example.com"}`)}, {shown: "yes", ask: zipped("/api/send", umamiMessage(`"url":"/z"`))}, none,
			{shown: "yes", ask: zipped("/api/v0/count?site=example.com", `{"no_sessions":true,"hits":[{"path":"/z"}]}`)}, none,
			{shown: "yes", ask: zipped("/v1/events", `{"site":"example.com","path":"/z"}`)},
		}},
		{"a bot is answered", func(events []schema.Event, got reply) bool {
			return len(events) == 0 && got.status/100 == 2 && got.header.Get(HeaderReason) == string(Bot)
		}, [6]dialectCell{
			{shown: "202, `x-plausible-dropped`", headers: bot}, {shown: "200, `beep`, `boop`", headers: bot}, {shown: "200, the image", headers: bot},
			{shown: "202, `X-Goatcounter-Filter`", extra: `"ip":"192.0.2.1","user_agent":"Googlebot/2.1"`}, {shown: "200, the image", headers: bot},
			{shown: "202, `errors`", extra: `"user_agent":"Googlebot/2.1"`},
		}},
		{"a mistake is answered", func(events []schema.Event, got reply) bool { return len(events) == 0 && got.status == 400 }, [6]dialectCell{
			{shown: "400, `errors` by field", extra: `"u":7`}, {shown: "400, `error`", extra: `"url":7`}, {shown: "400, `X-Goatcounter`", extra: "e=maybe"},
			{shown: "400, `errors` by index", extra: `"path":7`}, {shown: "400, the image", extra: "url=a"}, {shown: "400, `errors` by index and field", extra: `"url":7`},
		}},
	}
}

func sameVisitor(events []schema.Event, _ reply) bool {
	return len(events) == 2 && events[0].Visitor == events[1].Visitor && events[0].Visitor != 0
}

// zipped posts body compressed in either way, with a key.
func zipped(path, body string) func(r *rig) reply {
	return func(r *rig) reply {
		r.do(http.MethodPost, path, zstded(r.t, []byte(body)), "Content-Encoding: zstd", bearer(ingestSecret))
		return r.do(http.MethodPost, path, gzipped(r.t, []byte(body)), "Content-Encoding: gzip", bearer(ingestSecret))
	}
}

// TestDialectTable sees that each cell of the README's table holds, and that the README has the table.
func TestDialectTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("| |")
	for _, column := range dialectColumns {
		b.WriteString(" " + column.name + " |")
	}
	b.WriteString("\n|" + strings.Repeat(" --- |", len(dialectColumns)+1) + "\n")
	for _, row := range dialectRows() {
		b.WriteString("| " + row.feature + " |")
		for i, cell := range row.cells {
			b.WriteString(" " + probe(t, &row, i, cell) + " |")
		}
		b.WriteByte('\n')
	}
	checkReadme(t, "dialects", b.String())
}

// probe returns what the table shows of a cell, when it is so.
func probe(t *testing.T, row *dialectRow, column int, cell dialectCell) string {
	t.Helper()
	if cell.shown == "" {
		return "–"
	}
	r := newRig(t)
	ask := cell.ask
	if ask == nil {
		ask = func(r *rig) reply { return dialectColumns[column].ask(r, cell.extra, cell.headers...) }
	}
	got := ask(r)
	if events := r.events(); !row.holds(events, got) {
		t.Errorf("%s, %s: does not hold: %d %s %v, %+v", row.feature, dialectColumns[column].name, got.status, got.body, got.header, events)
	}
	return cell.shown
}

// checkReadme compares a generated part of the README with what it should be.
func checkReadme(t *testing.T, part, want string) {
	t.Helper()
	const path = "../README.md"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+part+": begin -->\n", "<!-- "+part+": end -->\n"
	before, rest, ok1 := strings.Cut(string(data), begin)
	got, after, ok2 := strings.Cut(rest, end)
	switch {
	case !ok1 || !ok2:
		t.Fatalf("the README has no part %q", part)
	case *updateReadme:
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case got != want:
		t.Errorf("the README's table is not what is (-README +is); -update rewrites it:\n%s", cmp.Diff(got, want))
	}
}
