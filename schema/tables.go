package schema

import (
	"fmt"
	"slices"
	"strings"
)

// Target is a table that a view fills from the inbox.
type Target struct {
	Table string
	View  string
	// Time is the column that the table's monthly or daily partitions are cut by.
	Time string
}

// Targets lists the tables that one INSERT into the inbox fills, in the order in which the migrations make them.
func Targets() []Target {
	return []Target{
		{Table: "events", View: "feed_events", Time: "ts"},
		{Table: "event_ids", View: "feed_event_ids", Time: "received_at"},
		{Table: "views", View: "feed_views", Time: "bucket"},
		{Table: "visitors", View: "feed_visitors", Time: "bucket"},
		{Table: "dimensions", View: "feed_dimensions", Time: "bucket"},
	}
}

// Kinds of rows in the dimensions table. Engagement pings are in neither.
const (
	KindPageView = "pageview"
	KindEvent    = "event"
)

// Inbox is the table that events are inserted into.
const Inbox = "inbox"

// dimensions are named in the order in which the view feed_dimensions lists them.
var dimensions = []string{
	"path", "title", "source", "channel", "referrer",
	"utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term",
	"country", "region", "city",
	"browser", "browser_version", "os", "os_version",
	"device", "screen", "language", "hostname", "name",
}

// Dimensions names what page views and events are broken down by, in the order in which the view lists them.
func Dimensions() []string { return slices.Clone(dimensions) }

// DimensionColumn is the column of events that holds the value of a dimension; it is "" for a name that is no dimension.
func DimensionColumn(dimension string) string {
	switch {
	case dimension == "path":
		return "path_key"
	case slices.Contains(dimensions, dimension):
		return dimension
	}
	return ""
}

// FeedQuery is the SELECT by which a view fills a target, reading from instead of the inbox, so that a repair adds up as the
// view does; it gives the target's columns in their order. from is a table or a subquery in brackets with the inbox's columns that the view reads: for every target but
// event_ids those are all in events. It fails for a table that no view fills.
func FeedQuery(target, from string) (string, error) {
	l := singleNode
	l.table = func(name string) string {
		if name == Inbox {
			return from
		}
		return name
	}
	all, err := load(embedded, "migrations", l)
	if err != nil {
		return "", err
	}
	for _, m := range slices.Backward(all) {
		for _, s := range slices.Backward(m.statements) {
			head, query, ok := strings.Cut(s, "\nAS ")
			if ok && strings.HasPrefix(head, "CREATE MATERIALIZED VIEW") && strings.HasSuffix(head, " TO "+target) {
				return query, nil
			}
		}
	}
	return "", fmt.Errorf("no view fills %s", target)
}
