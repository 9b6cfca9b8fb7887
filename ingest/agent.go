package ingest

import (
	_ "embed"
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

// agent is what a User-Agent header says.
type agent struct {
	browser, browserVersion string
	os, osVersion           string
	device                  string
	bot                     bool
}

// agentCache reads user agents and remembers the last ones: few are many.
type agentCache struct {
	parser *useragent.Parser
	seen   *lru.Cache[string, *agent]
}

func newAgentCache() *agentCache {
	seen, err := lru.New[string, *agent](cachedAgents)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &agentCache{parser: useragent.NewParser(), seen: seen}
}

// get reads ua, which may point into a request.
func (c *agentCache) get(ua string) *agent {
	ua = cutText(ua, maxAgentBytes)
	if a, ok := c.seen.Get(ua); ok {
		return a
	}
	ua = strings.Clone(ua)
	a := c.parse(ua)
	c.seen.Add(ua, a)
	return a
}

func (c *agentCache) parse(ua string) *agent {
	parsed := c.parser.Parse(ua)
	a := &agent{
		browser:        parsed.Browser().String(),
		browserVersion: shortVersion(parsed.BrowserVersion()),
		os:             parsed.OS().String(),
		device:         parsed.Device().String(),
		bot:            parsed.IsBot() || isBot(ua),
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
	return a
}

// versionAfter reads the version behind the first mark, as major.minor.
func versionAfter(ua, mark string) string {
	_, rest, ok := strings.Cut(ua, mark)
	if !ok {
		return unknownVersion
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' && r != '_' })
	if end >= 0 {
		rest = rest[:end]
	}
	return shortVersion(strings.ReplaceAll(rest, "_", "."))
}

// shortVersion cuts a version to major.minor: the rest tells browsers of one release apart, which no report asks for.
func shortVersion(v string) string {
	first := strings.IndexByte(v, '.')
	if first < 0 {
		return v
	}
	if second := strings.IndexByte(v[first+1:], '.'); second >= 0 {
		return v[:first+1+second]
	}
	return strings.TrimSuffix(v, ".")
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

//go:embed bots.txt
var botWords string

// botMarks are the lines of bots.txt: in lower case, and each marks an agent that holds it as a bot.
var botMarks = lines(botWords)

func lines(text string) []string {
	var list []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			list = append(list, line)
		}
	}
	return list
}

func isBot(ua string) bool {
	ua = strings.ToLower(ua)
	for _, mark := range botMarks {
		if strings.Contains(ua, mark) {
			return true
		}
	}
	return false
}

// enrichAgent reads the agent; of a browser it also decides whether it is one.
func enrichAgent(s *Server, h *hit) Reason {
	if h.agent == "" || h.agent == "-" {
		if h.judged {
			return NoAgent
		}
		return Accepted
	}
	a := s.agents.get(h.agent)
	if h.judged && a.bot {
		return Bot
	}
	e := &h.event
	e.Browser, e.BrowserVersion, e.OS, e.OSVersion, e.Device = a.browser, a.browserVersion, a.os, a.osVersion, a.device
	return Accepted
}
