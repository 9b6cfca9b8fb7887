package query

import (
	"slices"
	"strings"

	"github.com/pagetally/pagetally/schema"
)

// Goal is something that visitors of a site are wanted to do: send an event of a name, or view a page. Exactly one is set.
type Goal struct {
	Name  string // as shown
	Event string
	Page  string // path; * stands for any text without a slash, ** for any text
}

// condition on the events that reach the goal.
func (g Goal) condition() Filter {
	if g.Event != "" {
		return Filter{Op: Is, Dimension: dimName, Values: []string{g.Event}}
	}
	page := Filter{Op: Is, Dimension: dimPath, Values: []string{g.Page}}
	if strings.Contains(g.Page, "*") {
		page.Op, page.Values = Matches, []string{wildcardPattern(g.Page)}
	}
	return Filter{Op: And, Of: []Filter{{Op: Is, Dimension: dimName, Values: []string{schema.PageView}}, page}}
}

// expanded is the filter with goals put in their own terms.
func (f *Filter) expanded(goals []Goal) *Filter {
	if f == nil {
		return nil
	}
	if f.Dimension == dimGoal {
		return expandGoal(f, goals)
	}
	e := *f
	e.Of = make([]Filter, len(f.Of))
	for i := range f.Of {
		e.Of[i] = *f.Of[i].expanded(goals)
	}
	return &e
}

// expandGoal: the goals whose names match, any of which may be reached. A goal that the site does not have is reached by nobody.
func expandGoal(f *Filter, goals []Goal) *Filter {
	op, negated := f.Op.negated()
	reached := Filter{Op: Or}
	for _, goal := range goals {
		if f.holds(op, goal.Name) {
			reached.Of = append(reached.Of, goal.condition())
		}
	}
	if negated {
		return &Filter{Op: Not, Of: []Filter{reached}}
	}
	return &reached
}

// notConverting is the question how many visitors there were with or without a conversion: the filter and the groups less what makes
// one, which is a goal or the name of an event.
func (r *Request) notConverting() Request {
	converts := func(dimension string) bool { return dimension == dimGoal || dimension == dimName }
	base := *r
	base.Name = ""
	base.Filter = r.Filter.without(func(f *Filter) bool { return converts(f.Dimension) })
	base.Dimensions = slices.DeleteFunc(slices.Clone(r.Dimensions), converts)
	base.Metrics = []Metric{Visitors}
	base.Order, base.Limit, base.Offset, base.CountRows = nil, 0, 0, false
	return base
}

// ofGoal is the part of r, grouped by goal at a place, that is about one goal.
func (r *Request) ofGoal(goal Goal, at int) *Request {
	one := *r
	one.Dimensions = slices.Delete(slices.Clone(r.Dimensions), at, at+1)
	filters := []Filter{goal.condition()}
	if rest := r.Filter.without(func(f *Filter) bool { return f.Dimension == dimGoal }); rest != nil {
		filters = append(filters, *rest)
	}
	one.Filter = all(filters)
	one.Metrics = []Metric{Visitors}
	for _, m := range r.Metrics {
		if m != ConversionRate && m != Visitors {
			one.Metrics = append(one.Metrics, m)
		}
	}
	one.Order, one.Limit, one.Offset, one.CountRows = nil, 0, 0, false
	return &one
}

// admits says that no condition on goals, of those that all must hold, rules a goal out.
func (f *Filter) admits(goal Goal) bool {
	switch {
	case f == nil:
		return true
	case f.Dimension == dimGoal:
		op, negated := f.Op.negated()
		return f.holds(op, goal.Name) != negated
	case f.Op == And:
		return !slices.ContainsFunc(f.Of, func(part Filter) bool { return !part.admits(goal) })
	}
	return true
}
