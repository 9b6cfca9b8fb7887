package ingest

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/pagetally/pagetally/schema"
)

// maxIgnored bounds each list of what a site ignores: every event of the site is compared with all of it.
const maxIgnored = 500

// ignored is what a site does not count though it is its own: the office, a staging host, the pages of its editors.
type ignored struct {
	addresses []netip.Prefix
	hosts     []hostPattern
	paths     []pathPattern
	countries []string // ISO 3166-1 alpha-2
}

func checkIgnoredAddress(_ *Server, h *hit) Reason {
	if len(h.site.ignored.addresses) == 0 || h.everyAddress || !h.ip.IsValid() {
		return Accepted
	}
	ip := h.ip.Unmap()
	for _, prefix := range h.site.ignored.addresses {
		if prefix.Contains(ip) {
			return IgnoredAddress
		}
	}
	return Accepted
}

func checkIgnoredHost(_ *Server, h *hit) Reason {
	for _, pattern := range h.site.ignored.hosts {
		if pattern.matches(h.event.Hostname) {
			return IgnoredHost
		}
	}
	return Accepted
}

// checkIgnoredPath compares page keys, so that a pattern is written as readers see the page.
func checkIgnoredPath(_ *Server, h *hit) Reason {
	for i := range h.site.ignored.paths {
		if h.site.ignored.paths[i].matches(h.event.Path) {
			return IgnoredPath
		}
	}
	return Accepted
}

// checkIgnoredCountry stands behind the step that finds the country; an unknown one is never ignored.
func checkIgnoredCountry(_ *Server, h *hit) Reason {
	if h.event.Country != "" && slices.Contains(h.site.ignored.countries, h.event.Country) {
		return IgnoredCountry
	}
	return Accepted
}

// hostPattern is a host in canonical form, or the subdomains of one.
type hostPattern struct {
	host       string
	subdomains bool // of host, and not host itself
}

// parseHostPattern reads "staging.example.com" or "*.example.com".
func parseHostPattern(text string) (hostPattern, error) {
	rest, subdomains := strings.CutPrefix(strings.TrimSpace(text), "*.")
	host := canonicalHost(rest)
	switch {
	case !isHost(rest):
		return hostPattern{}, fmt.Errorf("%q is no host such as staging.example.com or *.example.com", text)
	case strings.HasPrefix(strings.ToLower(rest), "www.") && !strings.HasPrefix(host, "www."):
		return hostPattern{}, fmt.Errorf("%q counts as %s, so it cannot be ignored alone", text, host)
	}
	return hostPattern{host, subdomains}, nil
}

func (p hostPattern) matches(host string) bool {
	if !p.subdomains {
		return host == p.host
	}
	return isSubdomain(host, p.host)
}

// pathPattern is a page key in which "*" stands for any text without a slash and "**" for any text at all. Patterns that are a
// plain path, or one followed by "**", are compared as text; others are a regular expression, whose time is linear in the path.
type pathPattern struct {
	text   string
	prefix bool
	expr   *regexp.Regexp
}

const maxPathPattern = 256

func parsePathPattern(text string) (pathPattern, error) {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "*") || len(text) > maxPathPattern {
		return pathPattern{}, fmt.Errorf("%q is no path of at most %d bytes such as /admin/**", text, maxPathPattern)
	}
	text = patternKey(text)
	if !strings.Contains(text, "*") {
		return pathPattern{text: text}, nil
	}
	if head, ok := strings.CutSuffix(text, "**"); ok && !strings.Contains(head, "*") {
		return pathPattern{text: head, prefix: true}, nil
	}
	expr := regexp.QuoteMeta(text)
	expr = strings.ReplaceAll(expr, `\*\*`, `.*`)
	expr = strings.ReplaceAll(expr, `\*`, `[^/]*`)
	compiled, err := regexp.Compile(`^(?s:` + expr + `)$`)
	if err != nil {
		return pathPattern{}, fmt.Errorf("%q: %w", text, err)
	}
	return pathPattern{expr: compiled}, nil
}

// patternKey normalises the path in front of a pattern's query and fragment as paths of events are: escapes decoded, no closing
// slashes.
func patternKey(text string) string {
	end := strings.IndexAny(text, "?#")
	if end < 0 {
		end = len(text)
	}
	key := schema.PageKey(text[:end], schema.PathRules{})
	if text[0] == '*' {
		key = key[1:] // the slash that a path without one gets
	}
	return key + text[end:]
}

func (p *pathPattern) matches(path string) bool {
	switch {
	case p.expr != nil:
		return p.expr.MatchString(path)
	case p.prefix:
		return strings.HasPrefix(path, p.text)
	}
	return path == p.text
}

// parseCountry reads an ISO 3166-1 alpha-2 code in any case.
func parseCountry(text string) (string, error) {
	code := strings.ToUpper(strings.TrimSpace(text))
	if len(code) != 2 || code[0] < 'A' || code[0] > 'Z' || code[1] < 'A' || code[1] > 'Z' {
		return "", fmt.Errorf("%q is no two-letter country code such as DE", text)
	}
	return code, nil
}
