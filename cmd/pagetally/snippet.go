package main

import (
	"fmt"
	"io"
	"text/template"

	"github.com/pagetally/pagetally/ingest"
)

// snippet is what the pages of a new site need.
var snippet = template.Must(template.New("snippet").Parse(`{{.Domain}} is added; a running server takes it up within seconds. On its pages:

  import { init } from '@plausible-analytics/tracker'
  init({ domain: '{{.Domain}}', endpoint: '{{.At}}/api/event'{{if .Hash}}, hashBasedRouting: true{{end}} })

or, with a copy of Plausible's script beside them:

  <script defer data-domain="{{.Domain}}" data-api="{{.At}}/api/event" src="/js/script{{if .Hash}}.hash{{end}}.js"></script>

or, without script:

  <img src="{{.At}}/pixel.gif?site={{.Domain}}" alt="" width="1" height="1">
`))

// writeSnippet says how the pages of a site are counted by a server that browsers reach at the URL at.
func writeSnippet(out io.Writer, site ingest.SiteSettings, at string) error {
	view := struct {
		Domain, At string
		Hash       bool
	}{site.Domain, at, site.HashRouting}
	if err := snippet.Execute(out, view); err != nil {
		return fmt.Errorf("print snippet: %w", err)
	}
	return nil
}
