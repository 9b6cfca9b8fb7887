package schema

import (
	"strings"
	"unicode/utf8"
)

// MaxPathBytes bounds a page key; a longer one is cut at a character boundary.
const MaxPathBytes = 2048

// PathRules are a site's settings for PageKey. The zero value drops fragment and query.
type PathRules struct {
	HashRouting bool     // the fragment names the page: keep it, without its query
	KeepQuery   []string // query parameters that name the page, in the order in which the key holds them
}

// PageKey is the page a URL or path stands for, by rule R2: what counters are keyed by, and what a reader's path is turned
// into before it is looked up. A path without a leading slash gets one; an empty one is "/".
//
// Escapes are decoded once where they make valid UTF-8 text. Those of / % ? # and of control characters stay (in upper case),
// as do malformed ones, so that a key cannot be read as another page: PageKey(PageKey(p)) == PageKey(p). The key is valid
// UTF-8, at most MaxPathBytes long and has no control characters.
func PageKey(urlOrPath string, rules PathRules) string {
	return SplitURL(urlOrPath).PageKey(rules)
}

// PageKey is the page key of rule R2 for the parts' path, query and fragment; see the function of that name.
func (u URLParts) PageKey(rules PathRules) string {
	if !rules.HashRouting && len(rules.KeepQuery) == 0 && isPlainPath(u.Path) {
		return u.Path
	}
	b := make([]byte, 0, len(u.Path)+8)
	if !strings.HasPrefix(u.Path, "/") {
		b = append(b, '/')
	}
	b = appendDecoded(b, u.Path, "/%?#")
	b = trimSlashes(cutAtCharacter(b, MaxPathBytes), 1)
	b = appendKeptQuery(b, u.Query, rules.KeepQuery)
	if rules.HashRouting {
		b = appendFragment(b, u.Fragment)
	}
	return string(cutAtCharacter(b, MaxPathBytes))
}

// isPlainPath reports whether path is its own page key, which most are.
func isPlainPath(path string) bool {
	if path == "" || path[0] != '/' || len(path) > MaxPathBytes {
		return false
	}
	for i := 1; i < len(path); i++ {
		if c := path[i]; c < 0x20 || c >= 0x7f || c == '%' {
			return false
		}
	}
	return len(path) == 1 || path[len(path)-1] != '/'
}

// appendKeptQuery appends the kept parameters in the rules' order, so that the sender's order makes no other page.
func appendKeptQuery(b []byte, query string, keep []string) []byte {
	mark := byte('?')
	for _, name := range keep {
		for rest := query; rest != ""; {
			var pair string
			pair, rest, _ = strings.Cut(rest, "&")
			if got, _, _ := strings.Cut(pair, "="); got != name {
				continue
			}
			b = append(b, mark)
			b = appendDecoded(b, pair, "/%?#&=+")
			mark = '&'
		}
	}
	return b
}

func appendFragment(b []byte, fragment string) []byte {
	fragment, _, _ = strings.Cut(fragment, "?")
	if fragment == "" {
		return b
	}
	b = append(b, '#')
	start := len(b)
	b = appendDecoded(b, fragment, "/%?#")
	return trimSlashes(cutAtCharacter(b, MaxPathBytes), min(start+1, len(b)))
}

// trimSlashes drops closing slashes but leaves the first keep bytes alone.
func trimSlashes(b []byte, keep int) []byte {
	for len(b) > keep && b[len(b)-1] == '/' {
		b = b[:len(b)-1]
	}
	return b
}

// appendDecoded appends s with its escapes decoded once, save for those of control characters and of the characters in keep.
// Raw control characters become escapes and raw bytes that are not UTF-8 become U+FFFD.
func appendDecoded(b []byte, s, keep string) []byte {
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '%':
			var n int
			b, n = appendEscape(b, s[i:], keep)
			i += n
		case c < 0x20 || c == 0x7f:
			b = appendHex(b, c)
			i++
		case c < utf8.RuneSelf:
			b = append(b, c)
			i++
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += n
		}
	}
	return b
}

// appendEscape appends what the escape at the front of s stands for and returns the number of bytes of s it used.
func appendEscape(b []byte, s, keep string) (_ []byte, used int) {
	first, ok := unescape(s)
	if !ok {
		return append(b, '%'), 1
	}
	if first < utf8.RuneSelf {
		if first < 0x20 || first == 0x7f || strings.IndexByte(keep, first) >= 0 || completesEscape(b, first) {
			return appendHex(b, first), 3
		}
		return append(b, first), 3
	}
	var text [utf8.UTFMax]byte
	n := 0
	for n < len(text) {
		c, ok := unescape(s[3*n:])
		if !ok {
			break
		}
		text[n] = c
		n++
		if r, size := utf8.DecodeRune(text[:n]); r != utf8.RuneError || size == 3 {
			return append(b, text[:size]...), 3 * size
		}
	}
	return appendHex(b, first), 3
}

// completesEscape reports whether c after b would make an escape out of a stray per cent sign: a second decoding.
func completesEscape(b []byte, c byte) bool {
	if _, ok := hexDigit(c); !ok {
		return false
	}
	n := len(b)
	if n >= 1 && b[n-1] == '%' {
		return true
	}
	if n < 2 || b[n-2] != '%' {
		return false
	}
	_, ok := hexDigit(b[n-1])
	return ok
}

func appendHex(b []byte, c byte) []byte {
	const digits = "0123456789ABCDEF"
	return append(b, '%', digits[c>>4], digits[c&15])
}

// unescape reads %XX at the front of s.
func unescape(s string) (byte, bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, false
	}
	hi, ok1 := hexDigit(s[1])
	lo, ok2 := hexDigit(s[2])
	return hi<<4 | lo, ok1 && ok2
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// cutAtCharacter cuts b to at most limit bytes without splitting a character.
func cutAtCharacter(b []byte, limit int) []byte {
	if len(b) <= limit {
		return b
	}
	for limit > 0 && !utf8.RuneStart(b[limit]) {
		limit--
	}
	return b[:limit]
}
