//go:build linux

package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strings"
)

// site is the one whose pages are viewed.
const site = "shop.example"

//go:embed agents.txt
var agentList string

// agents are the User-Agents of real browsers, one a line.
var agents = strings.Split(strings.TrimSpace(agentList), "\n")

const (
	distinctRequests = 8192
	distinctPages    = 3000
)

// traffic is what the clients send: ready requests, as the Plausible tracker in browsers would write them. Pages are asked for
// by popularity; a tenth are custom events with properties. Each counts once.
type traffic struct {
	requests [][]byte
	ids      []int // where the event id of each request begins, of traffic that has them; each sending writes one of its own
	parse    func([]byte) (a answer, complete bool)
}

// newTraffic makes the same traffic in every run.
func newTraffic() *traffic {
	random := rand.New(rand.NewPCG(1, 2))
	pages := rand.NewZipf(random, 1.1, 8, distinctPages-1)
	t := &traffic{requests: make([][]byte, distinctRequests), parse: parseAnswer}
	for i := range t.requests {
		page := int(pages.Uint64())
		t.requests[i] = eventRequest(eventBody(random, page), agents[random.IntN(len(agents))], random)
	}
	return t
}

// idDigits is an event id that is to be written over, in hexadecimal digits.
const idDigits = "0000000000000000"

// newTrafficWithIDs is the same with an event id in each request, as this product's tracker sends it.
func newTrafficWithIDs() *traffic {
	t := newTraffic()
	t.ids = make([]int, len(t.requests))
	for i, request := range t.requests {
		head, body, _ := bytes.Cut(request, []byte("\r\n\r\n"))
		with := append([]byte(`{"id":"`+idDigits+`",`), body[1:]...)
		was, is := fmt.Sprintf("Content-Length: %d", len(body)), fmt.Sprintf("Content-Length: %d", len(with))
		t.requests[i] = fmt.Appendf(nil, "%s\r\n\r\n%s", bytes.Replace(head, []byte(was), []byte(is), 1), with)
		t.ids[i] = bytes.LastIndex(t.requests[i], []byte(idDigits))
	}
	return t
}

var (
	referrers = []string{
		"", "", "", "https://www.google.com/", "https://duckduckgo.com/", "https://www.bing.com/", "https://news.ycombinator.com/",
		"https://t.co/", "https://www.reddit.com/r/golang/comments/1", "https://blog.example/2026/07/a-review",
		"https://www.youtube.com/", "https://shop.example/", "https://shop.example/blog/7",
	}
	campaigns = []string{"", "", "", "", "?utm_source=newsletter&utm_medium=email&utm_campaign=july", "?ref=partner", "?gclid=Cj0KCQjw"}
	languages = []string{"en-US,en;q=0.9", "en-GB,en;q=0.8", "de-DE,de;q=0.9,en;q=0.7", "fr-FR,fr;q=0.9", "es-ES,es;q=0.9", "ja", "pt-BR,pt;q=0.9"}
	sections  = []string{"blog", "products", "docs", "help", "categories"}
)

func pagePath(page int) string { return fmt.Sprintf("/%s/%d", sections[page%len(sections)], page) }

func eventBody(random *rand.Rand, page int) string {
	url := fmt.Sprintf("https://%s%s%s", site, pagePath(page), pick(random, campaigns))
	if random.IntN(10) == 0 {
		return fmt.Sprintf(`{"n":"Add to cart","v":24,"u":"%s","d":"%s","r":null,"p":{"variant":"v%d","position":"%d"}}`,
			url, site, random.IntN(4), random.IntN(20))
	}
	referrer := pick(random, referrers)
	if referrer == "" {
		return fmt.Sprintf(`{"n":"pageview","v":24,"u":"%s","d":"%s","r":null}`, url, site)
	}
	return fmt.Sprintf(`{"n":"pageview","v":24,"u":"%s","d":"%s","r":"%s"}`, url, site, referrer)
}

// eventRequest is a request as a browser sends it, except that Host is always the same: the servers do not look at it.
func eventRequest(body, agent string, random *rand.Rand) []byte {
	return fmt.Appendf(nil, "POST /api/event HTTP/1.1\r\nHost: stats.%[1]s\r\nUser-Agent: %[2]s\r\nAccept: */*\r\nAccept-Language: %[3]s\r\n"+
		"Accept-Encoding: gzip, deflate, br, zstd\r\nReferer: https://%[1]s/\r\nContent-Type: text/plain\r\nOrigin: https://%[1]s\r\n"+
		"Sec-Fetch-Mode: cors\r\nSec-Fetch-Site: same-site\r\nContent-Length: %[4]d\r\n\r\n%[5]s",
		site, agent, pick(random, languages), len(body), body)
}

func pick(random *rand.Rand, list []string) string { return list[random.IntN(len(list))] }
