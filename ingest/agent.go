package ingest

import (
	"strings"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/medama-io/go-useragent"
	"github.com/medama-io/go-useragent/agents"
)

const (
	maxAgentBytes  = 1024 // longer agents are judged by their beginning
	cachedAgents   = 8192
	unknownVersion = ""
)

// agent is what a User-Agent header and client hints say.
type agent struct {
	browser, browserVersion string
	os, osVersion           string
	device                  string
	bot                     bool
}

// agentKey is what an agent is read from.
type agentKey struct {
	ua    string
	hints hints
}

// agentCache reads user agents and remembers the last ones: few are many.
type agentCache struct {
	parser *useragent.Parser
	seen   *lru.Cache[agentKey, *agent]
}

func newAgentCache() *agentCache {
	seen, err := lru.New[agentKey, *agent](cachedAgents)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &agentCache{parser: useragent.NewParser(), seen: seen}
}

// get reads ua and hints, which may point into a request.
func (c *agentCache) get(ua string, hints hints) *agent {
	key := agentKey{cutText(ua, maxAgentBytes), hints}
	if a, ok := c.seen.Get(key); ok {
		return a
	}
	key = agentKey{strings.Clone(key.ua), hints.clone()}
	a := c.parse(key.ua)
	key.hints.apply(a)
	c.seen.Add(key, a)
	return a
}

func (c *agentCache) parse(ua string) *agent {
	parsed := c.parser.Parse(ua)
	a := &agent{
		browser:        parsed.Browser().String(),
		browserVersion: shortVersion(parsed.BrowserVersion()),
		os:             parsed.OS().String(),
		device:         parsed.Device().String(),
		bot:            parsed.IsBot() || bots.has(ua),
	}
	switch parsed.OS() {
	case agents.OSMacOS:
		a.os, a.osVersion = "macOS", versionAfter(ua, "Mac OS X ")
	case agents.OSIOS:
		a.osVersion = versionAfter(ua, " OS ")
	case agents.OSAndroid:
		a.osVersion = versionAfter(ua, "Android ")
	case agents.OSWindows:
		a.osVersion = windowsVersion(versionAfter(ua, "Windows NT "))
	}
	a.mark(ua)
	return a
}

// mark puts into a what agents.txt says more of ua.
func (a *agent) mark(ua string) {
	if m, ok := markOf(browserMarks, ua); ok {
		a.browser, a.browserVersion = m.name, versionAfter(ua, m.text)
	}
	if m, ok := markOf(osMarks, ua); ok {
		a.os, a.osVersion = m.name, unknownVersion
	}
	if m, ok := markOf(deviceMarks, ua); ok {
		a.device = m.name
	} else if a.os == "Android" && a.device == "Mobile" && !strings.Contains(ua, "Mobile") && !strings.Contains(ua, "Opera M") {
		a.device = "Tablet" // which is how Android's browsers tell them from phones
	}
}

// versionAfter reads the version behind the first mark, as major.minor.
func versionAfter(ua, mark string) string {
	_, rest, ok := strings.Cut(ua, mark)
	if !ok {
		return unknownVersion
	}
	rest = strings.TrimLeft(rest, " /")
	end := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' && r != '_' })
	if end >= 0 {
		rest = rest[:end]
	}
	return shortVersion(strings.ReplaceAll(rest, "_", "."))
}

const maxVersionBytes = 16 // a longer one is made up

// shortVersion cuts a version to major.minor: the rest tells browsers of one release apart, which no report asks for.
func shortVersion(v string) string {
	major, rest, _ := strings.Cut(v, ".")
	minor, _, _ := strings.Cut(rest, ".")
	if minor != "" {
		v = v[:len(major)+1+len(minor)]
	} else {
		v = major
	}
	if len(v) > maxVersionBytes {
		return unknownVersion
	}
	return v
}

// windowsVersion is the name of a Windows NT version; browsers call Windows 11 by the number of 10.
func windowsVersion(nt string) string {
	switch nt {
	case "10.0":
		return "10"
	case "6.3":
		return "8.1"
	case "6.2":
		return "8"
	case "6.1":
		return "7"
	case "6.0":
		return "Vista"
	case "5.1", "5.2":
		return "XP"
	}
	return nt
}

// enrichAgent reads the agent; of a browser it also decides whether it is one.
func enrichAgent(s *Server, h *hit) Reason {
	if agent := strings.TrimSpace(h.agent); agent == "" || agent == "-" {
		if h.judged {
			return NoAgent
		}
		return Accepted
	}
	var own hints
	if h.agent == h.by.agent { // and not one that a server names for somebody else
		own = h.by.hints
	}
	a := s.agents.get(h.agent, own)
	if h.judged && a.bot {
		return Bot
	}
	e := &h.event
	e.Browser, e.BrowserVersion, e.OS, e.OSVersion, e.Device = a.browser, a.browserVersion, a.os, a.osVersion, a.device
	return Accepted
}
