package query

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pagetally/pagetally/schema"
)

// A dimension is what questions group and filter by. There are three kinds:
//
//   - of events: what each event carries (path, source, country, name, ...), a property as props.NAME, and goal;
//   - of visits: entry_page and exit_page, and what the first event of a visit carries, as visit:source, visit:country, ...;
//   - time, which is the interval of a question.

// Dimensions of their own kind.
const (
	dimPath      = "path"
	dimName      = "name"
	dimEntry     = "entry_page"
	dimExit      = "exit_page"
	dimGoal      = "goal"
	visitPrefix  = "visit:"
	propPrefix   = "props."
	maxPropName  = 300 // bytes, as events may carry
	labelNotSet  = "(not set)"
	labelDirect  = "Direct / None"
	maxGroupings = 6 // dimensions of a question
)

// parseDimension checks the name of a dimension.
func parseDimension(name string) (string, error) {
	switch rest, isVisit := strings.CutPrefix(name, visitPrefix); {
	case isDimension(name), name == dimEntry, name == dimExit, name == dimGoal:
		return name, nil
	case isVisit && slices.Contains(schema.VisitAttributes(), rest):
		return name, nil
	case strings.HasPrefix(name, propPrefix) && len(name) > len(propPrefix) && len(name) <= len(propPrefix)+maxPropName:
		return name, nil
	}
	return "", fmt.Errorf("%.100q is not one of %s", name, strings.Join(dimensionNames(), ", "))
}

// dimensionNames lists what can be asked for.
func dimensionNames() []string {
	return append(schema.Dimensions(), dimEntry, dimExit, visitPrefix+"source (and so on)", propPrefix+"NAME", dimGoal)
}

// isDimension says that the rollups know a dimension.
func isDimension(name string) bool { return slices.Contains(schema.Dimensions(), name) }

// ofVisit says that only visits know a dimension.
func ofVisit(dimension string) bool {
	return dimension == dimEntry || dimension == dimExit || strings.HasPrefix(dimension, visitPrefix)
}

// visitColumn is the column of `visits` that stands for a dimension: its own, or the one that holds what the first event of a visit
// said; "" when visits do not know it.
func visitColumn(dimension string) string {
	switch name := strings.TrimPrefix(dimension, visitPrefix); {
	case name == dimEntry:
		return "entry_path"
	case name == dimExit:
		return "exit_path"
	case slices.Contains(schema.VisitAttributes(), name):
		return name
	}
	return ""
}

// valueLabel is how a value of a dimension is shown: readers name what was not known when the event came.
func valueLabel(dimension, value string) string {
	if value != "" {
		return value
	}
	return emptyLabel(dimension)
}

func emptyLabel(dimension string) string {
	switch strings.TrimPrefix(dimension, visitPrefix) {
	case "source", "channel", "referrer":
		return labelDirect
	default:
		return labelNotSet
	}
}

// storedValue is what valueLabel shows as label.
func storedValue(dimension, label string) string {
	if label == emptyLabel(dimension) {
		return ""
	}
	return label
}
