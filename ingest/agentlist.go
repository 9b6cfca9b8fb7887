package ingest

import (
	_ "embed"
	"strings"
)

//go:embed agents.txt
var agentLines string

//go:embed bots.txt
var botLines string

// agentMark is a text in an agent and the name that it stands for.
type agentMark struct{ text, name string }

// The kinds of agents.txt. They are not written to.
var (
	browserMarks  = marksOf("browser")
	osMarks       = marksOf("os")
	deviceMarks   = marksOf("device")
	brandNames    = namesOf("brand")
	platformNames = namesOf("platform")
)

func marksOf(kind string) []agentMark {
	var list []agentMark
	for _, line := range lines(agentLines) {
		if c := columns(line, 3); c[0] == kind {
			list = append(list, agentMark{c[1], c[2]})
		}
	}
	return list
}

func namesOf(kind string) map[string]string {
	names := make(map[string]string)
	for _, m := range marksOf(kind) {
		names[m.text] = m.name
	}
	return names
}

// markOf finds the first of list that is in ua.
func markOf(list []agentMark, ua string) (agentMark, bool) {
	for _, m := range list {
		if strings.Contains(ua, m.text) {
			return m, true
		}
	}
	return agentMark{}, false
}

// bots is bots.txt, in lower case; it is not written to.
var bots = readBots(botLines)

type botList struct {
	marks      []string        // an agent that holds one is a bot's
	whole      map[string]bool // agents of bots
	exceptions []string        // are taken out of the agent first
}

func readBots(text string) botList {
	b := botList{whole: make(map[string]bool)}
	for _, line := range lines(text) {
		switch line[0] {
		case '!':
			b.exceptions = append(b.exceptions, line[1:])
		case '=':
			b.whole[line[1:]] = true
		default:
			b.marks = append(b.marks, line)
		}
	}
	return b
}

func (b botList) has(ua string) bool {
	ua = strings.ToLower(ua)
	if b.whole[ua] {
		return true
	}
	for _, exception := range b.exceptions {
		ua = strings.ReplaceAll(ua, exception, "")
	}
	for _, mark := range b.marks {
		if strings.Contains(ua, mark) {
			return true
		}
	}
	return false
}
