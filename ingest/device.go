package ingest

import (
	"strconv"
	"strings"
)

// enrichLanguage stores the first language of an Accept-Language header, "en-US"; the weights behind it are ignored.
func enrichLanguage(_ *Server, h *hit) Reason {
	tag, _, _ := strings.Cut(h.language, ",")
	tag, _, _ = strings.Cut(tag, ";")
	h.event.Language = languageTag(strings.TrimSpace(tag))
	return Accepted
}

// languageTag is tag in the usual case (en, pt-BR, zh-Hans-CN), or empty for what is no tag.
func languageTag(tag string) string {
	const longest = 35 // RFC 5646, section 4.4.1
	if len(tag) < 2 || len(tag) > longest {
		return ""
	}
	usual := true
	part := 0 // index of the byte in its subtag
	first := true
	for i := range len(tag) {
		switch c := tag[i]; {
		case c == '-':
			part, first = 0, false
			continue
		case c >= 'A' && c <= 'Z':
			usual = usual && !first
		case c >= 'a' && c <= 'z':
			usual = usual && (first || subtagLen(tag, i, part) != 2)
		case c < '0' || c > '9':
			return ""
		}
		part++
	}
	if usual {
		return tag
	}
	subtags := strings.Split(strings.ToLower(tag), "-")
	for i, s := range subtags {
		switch {
		case i > 0 && len(s) == 2:
			subtags[i] = strings.ToUpper(s)
		case i > 0 && len(s) == 4:
			subtags[i] = strings.ToUpper(s[:1]) + s[1:]
		}
	}
	return strings.Join(subtags, "-")
}

// subtagLen is the length of the subtag around byte i, which is its part-th.
func subtagLen(tag string, i, part int) int {
	rest := tag[i-part:]
	if end := strings.IndexByte(rest, '-'); end >= 0 {
		return end
	}
	return len(rest)
}

// enrichScreen stores the class of a screen's width ("390x844", or "390", in CSS pixels); sizes alone would be thousands.
func enrichScreen(_ *Server, h *hit) Reason {
	if h.screen == "" {
		return Accepted
	}
	width, _, _ := strings.Cut(h.screen, "x")
	px, err := strconv.ParseUint(width, 10, 16)
	switch {
	case err != nil || px == 0:
	case px < 576:
		h.event.Screen = "Mobile"
	case px < 992:
		h.event.Screen = "Tablet"
	case px < 1440:
		h.event.Screen = "Laptop"
	default:
		h.event.Screen = "Desktop"
	}
	return Accepted
}
