package schema

import (
	"strings"
	"text/template"
)

// layout fills in the parts of a migration that depend on how many servers there are. Migration files name a table, a view or an
// engine through it and are otherwise plain SQL, so that one history (and one checksum a file) serves every layout.
type layout struct {
	// table names the table that rows are written to and views read from on one server.
	table func(name string) string
	// view names a view.
	view func(name string) string
	// engine is the engine clause, without ENGINE and the equals sign.
	engine func(name string, args ...string) string
	// dedup are the settings that make a table remember the tokens of its blocks. The memory is counted in blocks of the whole
	// table and neither in time nor by partition: 100,000 are a day of one INSERT a second and cost some 25 MB.
	dedup string
	// monthly are the settings of tables with monthly partitions: a month that nothing was written to for an hour becomes one part,
	// which makes FINAL on it free.
	monthly string
}

// singleNode is the layout of one server: the names as they are, engines without replication.
var singleNode = layout{
	table:   func(name string) string { return name },
	view:    func(name string) string { return name },
	engine:  call,
	dedup:   "non_replicated_deduplication_window = 100000",
	monthly: "min_age_to_force_merge_seconds = 3600, min_age_to_force_merge_on_partition_only = 1",
}

func call(name string, args ...string) string {
	if len(args) == 0 {
		return name
	}
	return name + "(" + strings.Join(args, ", ") + ")"
}

func (l layout) funcs() template.FuncMap {
	return template.FuncMap{
		"table":   l.table,
		"view":    l.view,
		"engine":  l.engine,
		"dedup":   func() string { return l.dedup },
		"monthly": func() string { return l.monthly },
	}
}
