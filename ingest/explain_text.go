package ingest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// WriteText writes the explanation for people, a line a fact.
func (x Explanation) WriteText(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "request   %s\n", x.Endpoint)
	for _, a := range x.Assumed {
		fmt.Fprintf(&b, "assumed   %s\n", a)
	}
	fmt.Fprintf(&b, "client    %s: %s\n", x.Client.Address, x.Client.Why)
	for _, h := range x.Hits {
		h.writeText(&b)
	}
	fmt.Fprintf(&b, "reply     %d %s\n", x.Reply.Status, strings.TrimSpace(x.Reply.Body))
	for _, name := range slices.Sorted(maps.Keys(x.Reply.Headers)) {
		fmt.Fprintf(&b, "          %s: %s\n", name, x.Reply.Headers[name])
	}
	for _, e := range x.Events {
		b.WriteString("event     would be stored\n")
		writeColumns(&b, e)
	}
	if len(x.Events) == 0 {
		b.WriteString("event     none would be stored\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (h *ExplainedHit) writeText(b *strings.Builder) {
	fmt.Fprintf(b, "site      %s, found by %s\n", h.Site, h.FoundBy)
	for _, s := range h.Steps {
		switch {
		case s.Reason != Accepted:
			fmt.Fprintf(b, "  %-15s stops here: %s\n", s.Name, s.Reason)
		case len(s.Set) == 0:
			fmt.Fprintf(b, "  %-15s passes\n", s.Name)
		default:
			fmt.Fprintf(b, "  %-15s %s\n", s.Name, columnsText(s.Set))
		}
	}
	if h.Reason == Accepted {
		b.WriteString("verdict   counts\n")
	} else {
		fmt.Fprintf(b, "verdict   does not count: %s\n", h.Reason)
	}
}

func columnsText(columns map[string]any) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		list = append(list, name+"="+valueText(columns[name]))
	}
	return strings.Join(list, " ")
}

func writeColumns(b *strings.Builder, columns map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(columns)) {
		fmt.Fprintf(b, "  %-15s %s\n", name, valueText(columns[name]))
	}
}

// valueText is a value as JSON, which keeps odd characters from the terminal.
func valueText(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
