package query

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/pagetally/pagetally/schema"
)

// Op says how a filter decides.
type Op string

// The operators. Those of a dimension take values, any of which may match; the negated ones hold where none does.
const (
	Is          Op = "is"
	IsNot       Op = "is_not"
	Contains    Op = "contains"
	ContainsNot Op = "contains_not"
	Matches     Op = "matches" // regular expressions in RE2's syntax, found anywhere in the value
	MatchesNot  Op = "matches_not"
	// In wildcards * stands for any text without a slash and ** for any text. They become regular expressions when they are read.
	MatchesWildcard    Op = "matches_wildcard"
	MatchesWildcardNot Op = "matches_wildcard_not"

	And Op = "and"
	Or  Op = "or"
	Not Op = "not"
	// HasDone holds for all events of visits in which an event matches.
	HasDone    Op = "has_done"
	HasNotDone Op = "has_not_done"
)

// Limits of filters.
const (
	maxFilters      = 100 // conditions of a question
	maxFilterDepth  = 8
	maxFilterValues = 1000
	maxFilterValue  = 2048 // bytes of a value
)

// Filter is a condition on events or visits: of a dimension when it has Values, else of other filters.
type Filter struct {
	Op        Op
	Dimension string
	Values    []string // as stored: the empty value is empty
	FoldCase  bool     // letters match in either case
	Of        []Filter // and, or: any number; not, has_done, has_not_done: one
}

var (
	valueOps  = []Op{Is, IsNot, Contains, ContainsNot, Matches, MatchesNot, MatchesWildcard, MatchesWildcardNot}
	joinOps   = []Op{And, Or}
	singleOps = []Op{Not, HasDone, HasNotDone}
)

// negated is the operator that says the opposite of the one asked about, if op is such a one.
func (op Op) negated() (Op, bool) {
	switch op {
	case IsNot:
		return Is, true
	case ContainsNot:
		return Contains, true
	case MatchesNot:
		return Matches, true
	case HasNotDone:
		return HasDone, true
	}
	return op, false
}

// all joins filters; nil when there is none.
func all(filters []Filter) *Filter {
	switch len(filters) {
	case 0:
		return nil
	case 1:
		return &filters[0]
	}
	return &Filter{Op: And, Of: filters}
}

// leaves calls f for every condition on a dimension, and says whether it stands under has_done.
func (f *Filter) leaves(visit func(leaf *Filter, done bool)) { f.eachLeaf(false, visit) }

func (f *Filter) eachLeaf(done bool, visit func(*Filter, bool)) {
	if f == nil {
		return
	}
	if len(f.Of) == 0 && f.Dimension != "" {
		visit(f, done)
		return
	}
	done = done || f.Op == HasDone || f.Op == HasNotDone
	for i := range f.Of {
		f.Of[i].eachLeaf(done, visit)
	}
}

// dimensions of a filter, each once, in the order of their first use.
func (f *Filter) dimensions() []string {
	var list []string
	f.leaves(func(leaf *Filter, _ bool) {
		if !slices.Contains(list, leaf.Dimension) {
			list = append(list, leaf.Dimension)
		}
	})
	return list
}

// hasDone says that the filter asks about other events of a visit.
func (f *Filter) hasDone() bool {
	if f == nil {
		return false
	}
	if f.Op == HasDone || f.Op == HasNotDone {
		return true
	}
	return slices.ContainsFunc(f.Of, func(f Filter) bool { return f.hasDone() })
}

// oneValue is the value that a dimension must have to meet the filter, if there is just one.
func (f *Filter) oneValue() (value string, ok bool) {
	if f.Op != Is || f.FoldCase || len(f.Values) != 1 {
		return "", false
	}
	return f.Values[0], true
}

// without is the filter less the conditions that hold for drop, or nil.
func (f *Filter) without(drop func(*Filter) bool) *Filter {
	switch {
	case f == nil || drop(f):
		return nil
	case f.Op != And:
		return f
	}
	var kept []Filter
	for i := range f.Of {
		if rest := f.Of[i].without(drop); rest != nil {
			kept = append(kept, *rest)
		}
	}
	return all(kept)
}

// filterReader reads filters from JSON.
type filterReader struct {
	dimension func(name string) (string, error) // what a caller's name of a dimension means
	paths     schema.PathRules
	count     int
}

// read reads [op, dimension, [values], {options}], ["and" | "or", [filters]] or ["not" | "has_done" | "has_not_done", filter].
func (p *filterReader) read(text json.RawMessage, depth int) (f Filter, err error) {
	if p.count++; p.count > maxFilters || depth > maxFilterDepth {
		return f, fmt.Errorf("more than %d conditions, or nested more than %d deep", maxFilters, maxFilterDepth)
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(text, &parts); err != nil || len(parts) < 2 {
		return f, fmt.Errorf("%.100s is no filter: want [operator, dimension, [values]]", text)
	}
	if err := json.Unmarshal(parts[0], &f.Op); err != nil {
		return f, fmt.Errorf("%.100s is no operator", parts[0])
	}
	switch {
	case slices.Contains(joinOps, f.Op) && len(parts) == 2:
		f.Of, err = p.list(parts[1], depth+1)
		if err == nil && len(f.Of) == 0 {
			err = fmt.Errorf("%s joins no filters", f.Op)
		}
	case slices.Contains(singleOps, f.Op) && len(parts) == 2:
		var inner Filter
		inner, err = p.read(parts[1], depth+1)
		f.Of = []Filter{inner}
		if err == nil && (f.Op == HasDone || f.Op == HasNotDone) && inner.hasDone() {
			err = fmt.Errorf("%s stands within itself", f.Op)
		}
	case slices.Contains(valueOps, f.Op) && (len(parts) == 3 || len(parts) == 4):
		err = p.condition(&f, parts[1:])
	default:
		err = fmt.Errorf("%.100s is no filter: operators are %s, %s, %s", text, listOf(valueOps), listOf(joinOps), listOf(singleOps))
	}
	return f, err
}

func (p *filterReader) list(text json.RawMessage, depth int) ([]Filter, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(text, &items); err != nil {
		return nil, fmt.Errorf("%.100s is no list of filters", text)
	}
	list := make([]Filter, len(items))
	for i, item := range items {
		var err error
		if list[i], err = p.read(item, depth); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (p *filterReader) condition(f *Filter, parts []json.RawMessage) (err error) {
	var name string
	if err := json.Unmarshal(parts[0], &name); err != nil {
		return fmt.Errorf("%.100s is no dimension", parts[0])
	}
	if f.Dimension, err = p.dimension(name); err != nil {
		return err
	}
	if err := json.Unmarshal(parts[1], &f.Values); err != nil || len(f.Values) == 0 || len(f.Values) > maxFilterValues {
		return fmt.Errorf("%s: want a list of 1 to %d texts", name, maxFilterValues)
	}
	if len(parts) == 3 {
		var options struct {
			CaseSensitive *bool `json:"case_sensitive"`
		}
		if err := decodeStrict(parts[2], &options); err != nil {
			return fmt.Errorf("%s: want {\"case_sensitive\": false}: %w", name, err)
		}
		f.FoldCase = options.CaseSensitive != nil && !*options.CaseSensitive
	}
	return p.check(f)
}

// check bounds the values and turns them into what is stored.
func (p *filterReader) check(f *Filter) error {
	for i, v := range f.Values {
		if len(v) > maxFilterValue || strings.ContainsRune(v, 0) {
			return fmt.Errorf("%s: a value is longer than %d bytes, or no text", f.Dimension, maxFilterValue)
		}
		op, _ := f.Op.negated()
		if slices.Contains(wildcardOps, f.Op) {
			f.Values[i] = wildcardPattern(v)
			continue
		}
		if op == Matches {
			if _, err := regexp.Compile(v); err != nil {
				return fmt.Errorf("%s: %.100q is no regular expression: %w", f.Dimension, v, err)
			}
			continue
		}
		f.Values[i] = storedValue(f.Dimension, v)
		if op == Is && f.Dimension == dimPath && strings.HasPrefix(v, "/") {
			f.Values[i] = schema.PageKey(v, p.paths)
		}
	}
	switch f.Op {
	case MatchesWildcard:
		f.Op = Matches
	case MatchesWildcardNot:
		f.Op = MatchesNot
	}
	return nil
}

var wildcardOps = []Op{MatchesWildcard, MatchesWildcardNot}

// decodeStrict reads one JSON value and refuses keys that it does not know.
func decodeStrict(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more than one JSON value")
	}
	return nil
}

func listOf[S ~string](words []S) string { return strings.Join(names(words), ", ") }

// wildcardPattern is the regular expression of a value in which * stands for any text without a slash and ** for any text.
func wildcardPattern(value string) string {
	parts := strings.Split(value, "**")
	for i, part := range parts {
		inner := strings.Split(part, "*")
		for j := range inner {
			inner[j] = regexp.QuoteMeta(inner[j])
		}
		parts[i] = strings.Join(inner, "[^/]*")
	}
	return "^" + strings.Join(parts, ".*") + "$"
}
