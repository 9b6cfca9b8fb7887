package query

import (
	"slices"

	"github.com/pagetally/pagetally/schema"
)

func isDimension(name string) bool { return slices.Contains(schema.Dimensions(), name) }

// valueLabel is how a value of a dimension is shown: readers name what was not known when the event came.
func valueLabel(dimension, value string) string {
	if value != "" {
		return value
	}
	switch dimension {
	case "source", "channel", "referrer":
		return "Direct / None"
	default:
		return "(not set)"
	}
}
