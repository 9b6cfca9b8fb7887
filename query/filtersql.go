package query

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pagetally/pagetally/schema"
)

// condition is a filter as SQL. column names what holds a dimension's value where the condition stands. Values are parameters, never
// text of the statement.
func (b *builder) condition(f *Filter, column func(dimension string) string) string {
	switch f.Op {
	case And, Or:
		if len(f.Of) == 0 {
			return "0" // no goal of that name
		}
		parts := make([]string, len(f.Of))
		for i := range f.Of {
			parts[i] = b.condition(&f.Of[i], column)
		}
		return "(" + strings.Join(parts, " "+strings.ToUpper(string(f.Op))+" ") + ")"
	case Not:
		return "NOT " + b.condition(&f.Of[0], column)
	case HasDone, HasNotDone:
		return b.hasDone(f)
	}
	op, negated := f.Op.negated()
	sql := b.leaf(op, f, column(f.Dimension))
	if negated {
		return "NOT " + sql
	}
	return sql
}

// leaf is a condition on one column.
func (b *builder) leaf(op Op, f *Filter, column string) string {
	switch op {
	case Matches:
		parts := make([]string, len(f.Values))
		for i, pattern := range f.Values {
			if f.FoldCase {
				pattern = "(?i)" + pattern
			}
			parts[i] = fmt.Sprintf("match(%s, {%s:String})", column, b.fresh(pattern))
		}
		return "(" + strings.Join(parts, " OR ") + ")"
	case Contains:
		find := "position"
		if f.FoldCase {
			find = "positionCaseInsensitiveUTF8"
		}
		return fmt.Sprintf("arrayExists(v -> %s(%s, v) > 0, {%s:Array(String)})", find, column, b.fresh(f.Values))
	}
	values := f.Values
	if f.FoldCase {
		column = "lowerUTF8(" + column + ")"
		values = slices.Clone(values)
		for i, v := range values {
			values[i] = strings.ToLower(v)
		}
	}
	return fmt.Sprintf("%s IN {%s:Array(String)}", column, b.fresh(values))
}

// holds says whether a value meets a condition, as the SQL does.
func (f *Filter) holds(op Op, value string) bool {
	fold := func(s string) string {
		if f.FoldCase {
			return strings.ToLower(s)
		}
		return s
	}
	return slices.ContainsFunc(f.Values, func(want string) bool {
		switch op {
		case Matches:
			if f.FoldCase {
				want = "(?i)" + want
			}
			pattern, err := regexp.Compile(want)
			return err == nil && pattern.MatchString(value)
		case Contains:
			return strings.Contains(fold(value), fold(want))
		default:
			return fold(value) == fold(want)
		}
	})
}

// fresh binds a value to a new parameter of the filter and returns its name.
func (b *builder) fresh(value any) string {
	b.filters++
	name := fmt.Sprintf("filter_%d", b.filters)
	b.bind(name, value)
	return name
}

// eventColumn is the expression on a raw event that gives a dimension's value.
func (b *builder) eventColumn(dimension string) string {
	if prop, ok := strings.CutPrefix(dimension, propPrefix); ok {
		return "props[{" + b.prop(prop) + ":String}]"
	}
	return schema.DimensionColumn(dimension)
}

// prop binds the name of a property once, so that its expression is the same wherever it stands.
func (b *builder) prop(name string) string {
	i := slices.Index(b.props, name)
	if i < 0 {
		i = len(b.props)
		b.props = append(b.props, name)
	}
	parameter := fmt.Sprintf("prop_%d", i+1)
	b.bind(parameter, name)
	return parameter
}
