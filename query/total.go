package query

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/pagetally/pagetally/schema"
)

// Total is the number of views of a page since it is counted; path is its page key. Every event acknowledged before asOf is in it.
func (s *Store) Total(ctx context.Context, site, path string) (views int64, asOf time.Time, err error) {
	asOf = s.asOf()
	err = s.each(ctx, totalSQL(site, path), func(rows driver.Rows) error { return rows.Scan(&views) })
	return views, asOf, err
}

// totalSQL leaves FINAL out: sums agree without it, whatever is merging.
func totalSQL(site, path string) statement {
	return statement{
		"SELECT sum(n) AS views\nFROM views\nWHERE site = {site:String} AND name = {name:String} AND path_key = {path:String}",
		[]param{{"site", site}, {"name", schema.PageView}, {"path", path}},
	}
}
