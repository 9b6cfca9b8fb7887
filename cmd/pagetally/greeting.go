package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/pagetally/pagetally/ingest"
)

// greeting shows a person who started the server by hand how to send and read a first event. curl's own User-Agent is a
// bot's, which is not counted, so the example sends a browser's.
var greeting = template.Must(template.New("greeting").Parse(`
Pagetally listens on {{.URL}} and counts {{.Counts}}.

Send a view:
  curl -i {{.URL}}/api/event -A 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0' \
    -H 'Content-Type: application/json' -d '{"name":"pageview","domain":"{{.Site}}","url":"https://{{.Site}}/hello"}'
Read the count, exact some two seconds later:
  curl '{{.URL}}/v1/count?site={{.Site}}&path=/hello'
Count a page, with npm's @plausible-analytics/tracker or any Plausible script:
  import { init } from '@plausible-analytics/tracker'
  init({ domain: '{{.Site}}', endpoint: '{{.URL}}/api/event', captureOnLocalhost: true })
State: {{.URL}}/readyz   Metrics: {{.URL}}/metrics   Check: pagetally doctor --data {{.Data}}

`))

func greet(out io.Writer, s *Settings, url string, known []ingest.KnownSite) error {
	known = slices.DeleteFunc(known, func(k ingest.KnownSite) bool { return k.Unused != "" })
	view := struct{ URL, Counts, Site, Data string }{URL: url, Counts: countedSites(s, known), Site: "example.com", Data: s.Data}
	if len(known) > 0 {
		view.Site = known[0].Domain
	}
	if err := greeting.Execute(out, view); err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	return nil
}

// countedSites says whose views count, the first of many sites by name.
func countedSites(s *Settings, known []ingest.KnownSite) string {
	const most = 5
	var names []string
	for _, k := range known[:min(len(known), most)] {
		names = append(names, k.Domain)
	}
	if len(known) > most {
		names = append(names, fmt.Sprintf("%d more", len(known)-most))
	}
	switch {
	case slices.Contains(s.Site, anySite):
		names = append(names, "any site (loopback only)")
	case len(names) == 0:
		return "no site yet: pagetally sites add DOMAIN"
	}
	return strings.Join(names, ", ")
}
