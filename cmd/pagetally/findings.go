package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// verdict is how a check of doctor came out; the worst one is the exit code.
type verdict int

const (
	ok   verdict = iota
	warn         // works, but a promise or the comfort is at risk
	fail         // does not work, or counts may be lost or doubled
)

func (v verdict) String() string { return [...]string{"ok", "warn", "fail"}[v] }

// MarshalText writes the verdict as a word.
func (v verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// finding is one line of doctor's table.
type finding struct {
	Check   string  `json:"check"`
	Verdict verdict `json:"verdict"`
	Seen    string  `json:"seen"`
	Advice  string  `json:"advice,omitempty"` // what to do; empty when there is nothing to do
}

func passed(check, format string, args ...any) finding {
	return finding{Check: check, Verdict: ok, Seen: fmt.Sprintf(format, args...)}
}

func warned(check, advice, format string, args ...any) finding {
	return finding{Check: check, Verdict: warn, Seen: fmt.Sprintf(format, args...), Advice: advice}
}

func failed(check, advice, format string, args ...any) finding {
	return finding{Check: check, Verdict: fail, Seen: fmt.Sprintf(format, args...), Advice: advice}
}

func worst(findings []finding) verdict {
	w := ok
	for _, f := range findings {
		w = max(w, f.Verdict)
	}
	return w
}

func printFindings(out io.Writer, findings []finding) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range findings {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Verdict, f.Check, f.Seen)
		if f.Advice != "" {
			fmt.Fprintf(w, "\t\t-> %s\n", f.Advice)
		}
	}
	return w.Flush()
}

func printFindingsJSON(out io.Writer, findings []finding) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{"worst": worst(findings), "checks": findings})
}
