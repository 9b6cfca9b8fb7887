package query

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"html/template"
	"maps"
	"slices"
	"sync"

	"github.com/gofiber/fiber/v2"
)

// docsPage shows the description of the API to people, without scripts and without asking anybody else for anything.
//
//go:embed docs.html.tmpl
var docsPage string

// docs are made once: the description does not change while the process runs.
var docs = sync.OnceValues(func() (described, error) {
	text, err := json.Marshal(openAPI())
	if err != nil {
		return described{}, err
	}
	page, err := template.New("docs").Parse(docsPage)
	if err != nil {
		return described{}, err
	}
	var b bytes.Buffer
	err = page.Execute(&b, docsOf(openAPI()))
	return described{text, b.Bytes()}, err
})

// described is the description for programs and for people.
type described struct{ openAPI, page []byte }

// operation is what the page shows of one.
type operation struct {
	Method, Path, Summary, Tag string
	Parameters                 []object
	Replies                    []string
}

func docsOf(api object) object {
	var operations []operation
	all := api["paths"].(object)
	for _, path := range slices.Sorted(maps.Keys(all)) {
		for method, v := range all[path].(object) {
			o := v.(object)
			parameters, _ := o["parameters"].([]object)
			operations = append(operations, operation{
				Method: method, Path: path, Summary: o["summary"].(string), Tag: o["tags"].([]string)[0], Parameters: parameters,
				Replies: slices.Sorted(maps.Keys(o["responses"].(object))),
			})
		}
	}
	slices.SortStableFunc(operations, func(a, b operation) int {
		return cmp.Compare(slices.Index(tags, a.Tag), slices.Index(tags, b.Tag))
	})
	return object{"info": api["info"], "operations": operations, "definitions": definitions}
}

// tags in the order in which the page shows them.
var tags = []string{"Reading", "Operating", "Plausible"}

func (s *Server) openAPI(c *fiber.Ctx) error {
	d, err := docs()
	if err != nil {
		return s.reply(c, "openapi", s.cfg.Now(), nil, err)
	}
	c.Set(fiber.HeaderAccessControlAllowOrigin, "*")
	return sendDocs(c, fiber.MIMEApplicationJSON, d.openAPI)
}

func (s *Server) docs(c *fiber.Ctx) error {
	d, err := docs()
	if err != nil {
		return s.reply(c, "docs", s.cfg.Now(), nil, err)
	}
	return sendDocs(c, fiber.MIMETextHTMLCharsetUTF8, d.page)
}

func sendDocs(c *fiber.Ctx, contentType string, body []byte) error {
	c.Set(fiber.HeaderCacheControl, "public, max-age=3600")
	c.Set(fiber.HeaderContentSecurityPolicy, "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	c.Set(fiber.HeaderXContentTypeOptions, "nosniff")
	c.Set(fiber.HeaderContentType, contentType)
	return c.Send(body)
}
