package ingest

import (
	"strings"
	"time"

	"github.com/pagetally/pagetally/schema"
)

// describe is an event as its columns, without empty ones. The visitor is left out: it would tell whether somebody was here.
func describe(e *schema.Event) map[string]any {
	columns := map[string]any{"ts": time.UnixMilli(e.TS).UTC().Format("2006-01-02T15:04:05.000Z07:00"), "n": e.N}
	for _, c := range []struct{ name, value string }{
		{"site", e.Site}, {"name", e.Name}, {"hostname", e.Hostname}, {"path", e.Path}, {"path_key", e.PathKey}, {"title", e.Title},
		{"referrer", e.Referrer}, {"source", e.Source}, {"channel", e.Channel}, {"utm_source", e.UTMSource}, {"utm_medium", e.UTMMedium},
		{"utm_campaign", e.UTMCampaign}, {"utm_content", e.UTMContent}, {"utm_term", e.UTMTerm}, {"country", e.Country},
		{"region", e.Region}, {"city", e.City}, {"browser", e.Browser}, {"browser_version", e.BrowserVersion}, {"os", e.OS},
		{"os_version", e.OSVersion}, {"device", e.Device}, {"screen", e.Screen}, {"language", e.Language}, {"event_id", e.EventID},
		{"namespace", e.Namespace}, {"job", e.Job},
	} {
		if c.value != "" {
			columns[c.name] = strings.Clone(c.value) // the event points into the request
		}
	}
	if e.EngagedMS > 0 {
		columns["engaged_ms"] = e.EngagedMS
	}
	if e.Scroll != schema.NoScroll {
		columns["scroll"] = e.Scroll
	}
	if flags := flagNames(e.Flags); len(flags) > 0 {
		columns["flags"] = flags
	}
	if len(e.Props) > 0 {
		props := make(map[string]string, len(e.Props))
		for _, p := range e.Props {
			props[strings.Clone(p.Key)] = strings.Clone(p.Value)
		}
		columns["props"] = props
	}
	return columns
}

func flagNames(flags uint16) []string {
	var names []string
	for _, f := range []struct {
		bit  uint16
		name string
	}{
		{schema.FlagTimeReplaced, "time_replaced"}, {schema.FlagNonInteractive, "non_interactive"}, {schema.FlagPathFolded, "path_folded"},
	} {
		if flags&f.bit != 0 {
			names = append(names, f.name)
		}
	}
	return names
}
