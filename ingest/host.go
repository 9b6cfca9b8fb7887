package ingest

import (
	"strings"

	"golang.org/x/net/idna"
)

// canonicalHost brings a host into the form in which hosts are compared and stored: lower case, punycode, without port, brackets
// of an IPv6 literal, closing point and leading "www.". What is no valid international name is only lowered.
func canonicalHost(host string) string {
	host = strings.TrimSuffix(cutPort(host), ".")
	if !isLowerASCII(host) {
		host = foldHost(host)
	}
	if rest, ok := strings.CutPrefix(host, "www."); ok && strings.Contains(rest, ".") {
		return rest
	}
	return host
}

// cutPort drops the port and the brackets of an IPv6 literal. Ports do not tell sites apart.
func cutPort(host string) string {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, _, _ = strings.Cut(inner, "]")
		return inner
	}
	if i := strings.LastIndexByte(host, ':'); i >= 0 && strings.IndexByte(host, ':') == i {
		return host[:i]
	}
	return host
}

func isLowerASCII(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 0x80 || c >= 'A' && c <= 'Z' || c == '%' {
			return false
		}
	}
	return true
}

func foldHost(host string) string {
	if ascii, err := idna.Lookup.ToASCII(host); err == nil {
		return ascii
	}
	return strings.ToLower(host)
}
