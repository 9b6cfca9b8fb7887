package schema

import "strings"

// URLParts are the pieces of a URL as it was sent: parts of the input, nothing decoded, case kept.
type URLParts struct {
	Scheme   string // without the colon; empty when the input is a path
	Host     string // without user information, with port and brackets; empty when there is none
	Path     string
	Query    string // without the question mark
	Fragment string // without the number sign
}

// SplitURL cuts a URL, or a path with or without query and fragment, into its parts. It allocates nothing and refuses nothing:
// callers judge the scheme and the host. User information is dropped.
func SplitURL(raw string) URLParts {
	var u URLParts
	rest, fragment, _ := strings.Cut(raw, "#")
	u.Fragment = fragment
	rest, u.Query, _ = strings.Cut(rest, "?")
	scheme, after, ok := cutScheme(rest)
	if !ok {
		u.Path = rest
		return u
	}
	u.Scheme = scheme
	authority, ok := strings.CutPrefix(after, "//")
	if !ok {
		u.Path = after
		return u
	}
	if i := strings.IndexAny(authority, `/\`); i >= 0 {
		authority, u.Path = authority[:i], authority[i:]
	}
	u.Host = authority[strings.LastIndexByte(authority, '@')+1:]
	return u
}

// cutScheme splits off a scheme by RFC 3986, section 3.1: a letter, then letters, digits, plus, point or hyphen, then a colon.
func cutScheme(s string) (scheme, rest string, ok bool) {
	for i := range len(s) {
		switch c := s[i]; {
		case c|0x20 >= 'a' && c|0x20 <= 'z':
		case c == ':' && i > 0:
			return s[:i], s[i+1:], true
		case i > 0 && (c >= '0' && c <= '9' || c == '+' || c == '.' || c == '-'):
		default:
			return "", "", false
		}
	}
	return "", "", false
}
