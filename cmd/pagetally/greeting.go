package main

import (
	"fmt"
	"io"
	"strings"
	"text/template"
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

func greet(out io.Writer, s *Settings, url string) error {
	view := struct{ URL, Counts, Site, Data string }{URL: url, Counts: strings.Join(s.Site, ", "), Site: s.Site[0], Data: s.Data}
	if s.Site[0] == anySite {
		view.Counts, view.Site = "any site (loopback only)", "example.com"
	}
	if err := greeting.Execute(out, view); err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	return nil
}
