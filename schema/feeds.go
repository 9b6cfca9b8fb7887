package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// ErrFeedBroken says that a view of the inbox is gone or yields a column that its table does not have.
var ErrFeedBroken = errors.New("a view no longer fits its table")

// CheckFeeds makes sure that an INSERT into the inbox reaches every target whole. ClickHouse does not: it drops the columns that a
// target lacks, and whatever a missing view would have stored, without an error. A server that loads its tables while it
// already answers (async_load_databases) knows of views that do not take part in INSERTs yet. The error is ErrFeedBroken with what
// is wrong.
func CheckFeeds(ctx context.Context, conn driver.Conn) error {
	var views, tables []string
	for _, t := range Targets() {
		views, tables = append(views, t.View), append(tables, t.Table)
	}
	var found, fed uint64
	var lacking []string
	err := conn.QueryRow(ctx, `WITH transform(table, {views:Array(String)}, {tables:Array(String)}, '') AS target
		SELECT uniqExact(table), groupArrayIf(target || '.' || name,
			(target, name) NOT IN (SELECT table, name FROM system.columns WHERE database = currentDatabase())),
			(SELECT length(arrayIntersect(groupUniqArrayArray(dependencies_table), {views:Array(String)})) FROM system.tables WHERE database = currentDatabase())
		FROM system.columns WHERE database = currentDatabase() AND has({views:Array(String)}, table)`,
		clickhouse.Named("views", views), clickhouse.Named("tables", tables)).Scan(&found, &lacking, &fed)
	switch {
	case err != nil:
		return fmt.Errorf("check the views: %w", err)
	case found < uint64(len(views)):
		return fmt.Errorf("%w: %d of the %d views are there; run pagetally migrate or restore them", ErrFeedBroken, found, len(views))
	case fed < uint64(len(views)):
		return fmt.Errorf("%w: %d of the %d views take part in INSERTs", ErrFeedBroken, fed, len(views))
	case len(lacking) > 0:
		return fmt.Errorf("%w: no column %s", ErrFeedBroken, strings.Join(lacking, ", "))
	}
	return nil
}
