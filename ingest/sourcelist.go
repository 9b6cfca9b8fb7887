package ingest

import (
	_ "embed"
	"strings"
)

// sourceKind is what a source is, on which its channel rests. Empty: nothing in particular.
type sourceKind string

const (
	kindSearch   sourceKind = "search"
	kindSocial   sourceKind = "social"
	kindVideo    sourceKind = "video"
	kindShopping sourceKind = "shopping"
	kindEmail    sourceKind = "email"
	kindAI       sourceKind = "ai"
)

// source is a line of sources.txt.
type source struct {
	name string
	kind sourceKind
}

//go:embed sources.txt
var sourceLines string

// sources is the list; it is not written to.
var sources = readSources(sourceLines)

type sourceList struct {
	hosts     map[string]*source // "bing.com"
	countries map[string]*source // "google", under any country's domain
	apps      map[string]*source // "com.reddit.frontpage"
	words     map[string]*source // of utm_source, in lower case
	short     map[string]*source // those words that are shown by the name
}

func readSources(text string) *sourceList {
	l := &sourceList{
		hosts: make(map[string]*source), countries: make(map[string]*source), apps: make(map[string]*source),
		words: make(map[string]*source), short: make(map[string]*source),
	}
	for _, line := range lines(text) {
		c := columns(line, 4)
		s := &source{name: c[1], kind: sourceKind(strings.TrimPrefix(c[0], "-"))}
		for _, host := range strings.Fields(c[2]) {
			l.addHost(host, s)
		}
		for _, word := range strings.Fields(c[3]) {
			word, short := strings.CutPrefix(strings.ReplaceAll(word, "+", " "), "=")
			l.words[word] = s
			if short {
				l.short[word] = s
			}
		}
	}
	return l
}

func (l *sourceList) addHost(host string, s *source) {
	if app, ok := strings.CutPrefix(host, "app:"); ok {
		l.apps[app] = s
		return
	}
	if label, ok := strings.CutSuffix(host, ".*"); ok {
		l.countries[label] = s
		return
	}
	l.hosts[host] = s
}

// ofHost finds the source to which a canonical host belongs, the longest match first; nil when there is none.
func (l *sourceList) ofHost(host string) *source {
	for name := host; name != ""; {
		if s, ok := l.hosts[name]; ok {
			return s
		}
		label, rest, ok := strings.Cut(name, ".")
		if !ok {
			return nil
		}
		if isCountrySuffix(rest) {
			if s, ok := l.countries[label]; ok {
				return s
			}
		}
		name = rest
	}
	return nil
}

// isCountrySuffix reports whether a domain directly under s is one that a company registers country by country: com, de, co.uk.
func isCountrySuffix(s string) bool {
	first, second, two := strings.Cut(s, ".")
	switch first {
	case "com", "co", "net", "org", "or", "ne":
		return !two || len(second) == 2
	}
	return !two && len(first) == 2
}

// ofWord finds what a campaign's source stands for: a word of the list in any case, or the host of a source ("chatgpt.com").
// shown reports that the source goes by the name in the list and not as it was sent.
func (l *sourceList) ofWord(word string) (s *source, shown bool) {
	if len(word) > maxDomainBytes {
		return nil, false
	}
	lower := strings.ToLower(word)
	if s, ok := l.words[lower]; ok {
		_, short := l.short[lower]
		return s, short
	}
	if strings.IndexByte(lower, '.') > 0 {
		if s := l.ofHost(canonicalHost(lower)); s != nil {
			return s, true
		}
	}
	return nil, false
}
