package ingest

import (
	"strings"
	"unicode/utf8"
	"unsafe"
)

// MaxTextBytes is where url, referrer, title and campaign tags are cut, rule R10.
const MaxTextBytes = 2048

// cleanText makes s fit to be stored: valid UTF-8 (U+FFFD for bytes that are not), no NUL, at most limit bytes, cut at a character.
func cleanText(s string, limit int) string {
	if !isClean(s) {
		s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	}
	return cutText(s, limit)
}

// isClean reports whether s is valid UTF-8 without NUL.
func isClean(s string) bool {
	return strings.IndexByte(s, 0) < 0 && utf8.ValidString(s)
}

func cutText(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// text looks at b as a string without copying it: the string is good for as long as b is not written to.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
