package ingest

import (
	"reflect"
	"strings"

	"github.com/pagetally/pagetally/schema"
)

// ExplainedStep is what one step made of a hit.
type ExplainedStep struct {
	Name   string         `json:"step"`
	Reason Reason         `json:"reason,omitempty"` // for which the hit is not counted
	Set    map[string]any `json:"set,omitempty"`    // columns of the event that the step changed
}

// ExplainedHit is one event on its way, for one site.
type ExplainedHit struct {
	Site    string          `json:"site"`
	FoundBy string          `json:"site_found_by"`
	Address string          `json:"address"` // of the client; empty when nobody's
	Agent   string          `json:"user_agent"`
	Keyed   bool            `json:"keyed"` // with the rights of a key: no limits, and not judged as a browser
	Steps   []ExplainedStep `json:"steps"`
	Reason  Reason          `json:"reason,omitempty"` // empty: it counts
}

// trace notes the way of the hits of one request that is explained.
type trace struct {
	hits []ExplainedHit
}

// complete is Server.complete, with notes.
func (t *trace) complete(s *Server, h *hit, scratch *[]byte) (Reason, error) {
	x := ExplainedHit{Site: h.site.Domain, FoundBy: h.siteFoundBy(), Agent: strings.Clone(h.agent), Keyed: h.keyed}
	if h.ip.IsValid() {
		x.Address = h.ip.String()
	}
	defer func() { t.hits = append(t.hits, x) }()
	for i := range steps {
		before := h.event
		reason := steps[i].do(s, h)
		x.Steps = append(x.Steps, ExplainedStep{Name: steps[i].name, Reason: reason, Set: changes(&before, &h.event)})
		if reason != Accepted {
			x.Reason = reason
			return reason, nil
		}
	}
	return Accepted, s.identify(h, scratch)
}

func (h *hit) siteFoundBy() string {
	if h.byHost {
		return "the page's host"
	}
	return "the name in the event"
}

// changes are the columns in which two events differ, with the later values.
func changes(before, after *schema.Event) map[string]any {
	old, now := describe(before), describe(after)
	for name, value := range now {
		if reflect.DeepEqual(old[name], value) {
			delete(now, name)
		}
	}
	return now
}
