package ingest

import (
	"strings"
)

// campaign holds the tags of a URL's query, by rule R3, decoded.
type campaign struct {
	source, medium, name, content, term string

	clicks     clicks
	sourceRank int // of sourceNames: the first name present wins
}

// sourceNames are the tags that name a source, the strongest first.
var sourceNames = [...]string{"utm_source", "source", "ref", "src"}

// readCampaign reads the tags of a query: names in any case, values form-decoded once, the first of a name wins.
func readCampaign(query string) campaign {
	c := campaign{sourceRank: len(sourceNames)}
	for rest := query; rest != ""; {
		var pair string
		pair, rest, _ = strings.Cut(rest, "&")
		name, value, _ := strings.Cut(pair, "=")
		if value != "" {
			c.take(name, value)
		}
	}
	return c
}

func (c *campaign) take(name, value string) {
	switch {
	case len(name) > len("utm_campaign"):
	case equalFold(name, "utm_medium"):
		setOnce(&c.medium, value)
	case equalFold(name, "utm_campaign"):
		setOnce(&c.name, value)
	case equalFold(name, "utm_content"):
		setOnce(&c.content, value)
	case equalFold(name, "utm_term"):
		setOnce(&c.term, value)
	case c.clicks.note(name):
	default:
		c.takeSource(name, value)
	}
}

func (c *campaign) takeSource(name, value string) {
	for rank, known := range sourceNames[:c.sourceRank] {
		if equalFold(name, known) {
			c.source, c.sourceRank = formDecode(value), rank
			return
		}
	}
}

func setOnce(field *string, value string) {
	if *field == "" {
		*field = formDecode(value)
	}
}

// equalFold compares s with a lower-case ASCII word.
func equalFold(s, word string) bool {
	if len(s) != len(word) {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		if c != word[i] {
			return false
		}
	}
	return true
}

// formDecode decodes a query value once: plus is a space, %XX a byte, a malformed escape itself. The result is clean text.
func formDecode(s string) string {
	if !strings.ContainsAny(s, "+%") {
		return cleanText(s, MaxTextBytes)
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '+':
			b = append(b, ' ')
		case s[i] == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			b = append(b, hexValue(s[i+1])<<4|hexValue(s[i+2]))
			i += 2
		default:
			b = append(b, s[i])
		}
	}
	return cleanText(string(b), MaxTextBytes)
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f'
}

func hexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}

func enrichCampaign(_ *Server, h *hit) Reason {
	if h.url.Query == "" {
		return Accepted
	}
	c := readCampaign(h.url.Query)
	e := &h.event
	e.Source = c.source
	e.UTMSource, e.UTMMedium, e.UTMCampaign, e.UTMContent, e.UTMTerm = c.source, c.medium, c.name, c.content, c.term
	h.clicks = c.clicks
	return Accepted
}
