package ingest

import "strings"

// hints are the client hints of a request, https://wicg.github.io/ua-client-hints/: what a Chromium browser says of itself where its
// agent is frozen. Brands, platform and mobile come with each request over TLS; full versions and the platform's version only
// when the page's server has asked for them. The zero value is a browser without.
type hints struct {
	brands   string // Sec-CH-UA: "Brave";v="126", "Chromium";v="126", ...
	full     string // Sec-CH-UA-Full-Version-List, of the same form
	platform string // Sec-CH-UA-Platform: "Windows"
	version  string // Sec-CH-UA-Platform-Version: "15.0.0"
	mobile   string // Sec-CH-UA-Mobile: ?0 or ?1
}

// Longer hints are no browser's.
const (
	maxBrandBytes = 512
	maxHintBytes  = 64
)

// take notes a header that is a hint.
func (h *hints) take(name, value string) {
	hint, limit := (*string)(nil), maxHintBytes
	switch name {
	case "Sec-Ch-Ua":
		hint, limit = &h.brands, maxBrandBytes
	case "Sec-Ch-Ua-Full-Version-List":
		hint, limit = &h.full, maxBrandBytes
	case "Sec-Ch-Ua-Platform":
		hint = &h.platform
	case "Sec-Ch-Ua-Platform-Version":
		hint = &h.version
	case "Sec-Ch-Ua-Mobile":
		hint = &h.mobile
	}
	if hint != nil && len(value) <= limit {
		setFirst(hint, value)
	}
}

// clone is h in memory of its own.
func (h hints) clone() hints {
	return hints{strings.Clone(h.brands), strings.Clone(h.full), strings.Clone(h.platform), strings.Clone(h.version), strings.Clone(h.mobile)}
}

// apply puts into a what the hints say more or better than the agent.
func (h hints) apply(a *agent) {
	h.applyBrand(a)
	h.applyPlatform(a)
	switch {
	case h.mobile == "?1" && (a.device == "Desktop" || a.device == ""):
		a.device = "Mobile" // which asked for the desktop's page
	case h.mobile == "?0" && a.os == "Android" && a.device == "Mobile":
		a.device = "Tablet"
	}
}

// applyBrand names the browser: many call themselves Chrome in their agent and by their own name here.
func (h hints) applyBrand(a *agent) {
	for name, version := range brandList(h.brands) {
		if strings.Contains(name, "Headless") {
			a.bot = true
		}
		known, ok := brandNames[name]
		if !ok || known == chrome && a.browser != "" {
			continue
		}
		if a.browser != known && version != majorOf(a.browserVersion) {
			a.browserVersion = shortVersion(version)
		}
		a.browser = known
	}
	for name, version := range brandList(h.full) {
		if brandNames[name] == a.browser {
			a.browserVersion = shortVersion(version)
		}
	}
}

const chrome = "Chrome"

func (h hints) applyPlatform(a *agent) {
	platform, ok := platformNames[unquote(h.platform)]
	if !ok {
		return
	}
	if platform != a.os {
		a.os, a.osVersion = platform, unknownVersion
	}
	version := shortVersion(unquote(h.version))
	if version == "" {
		return
	}
	switch platform {
	case "Windows":
		if name := windowsRelease(version); name != "" {
			a.osVersion = name
		}
	case "Android":
		a.osVersion = strings.TrimSuffix(version, ".0") // as agents have it
	case "macOS", "iOS":
		a.osVersion = version
	}
}

// windowsRelease is the name of a Windows release by the version of its API contract; agents say 10 for 11.
func windowsRelease(version string) string {
	switch major := majorOf(version); {
	case version == "0.1":
		return "7"
	case version == "0.2":
		return "8"
	case version == "0.3":
		return "8.1"
	case len(major) == 1 && major >= "1" || major == "10":
		return "10"
	case len(major) == 2 && major >= "13":
		return "11"
	}
	return ""
}

func majorOf(version string) string {
	major, _, _ := strings.Cut(version, ".")
	return major
}

func unquote(s string) string {
	return strings.Trim(strings.TrimSpace(s), `"`)
}

// brandList yields names and versions of a list such as "Brave";v="126", "Not;A=Brand";v="8".
func brandList(list string) func(yield func(name, version string) bool) {
	return func(yield func(name, version string) bool) {
		for {
			name, rest, ok := cutQuoted(list)
			if !ok {
				return
			}
			version := ""
			if after, ok := strings.CutPrefix(rest, ";v="); ok {
				if version, rest, ok = cutQuoted(after); !ok {
					return
				}
			}
			if !yield(name, versionOnly(version)) {
				return
			}
			list = rest
		}
	}
}

// cutQuoted cuts the first quoted text out of s. What is escaped in it stays so: no name that is known holds an escape.
func cutQuoted(s string) (quoted, rest string, ok bool) {
	start := strings.IndexByte(s, '"')
	if start < 0 {
		return "", "", false
	}
	for end := start + 1; end < len(s); end++ {
		switch s[end] {
		case '\\':
			end++
		case '"':
			return s[start+1 : end], s[end+1:], true
		}
	}
	return "", "", false
}

// versionOnly is v, or empty when it holds anything but digits and points.
func versionOnly(v string) string {
	if strings.Trim(v, "0123456789.") != "" {
		return ""
	}
	return v
}
