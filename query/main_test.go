package query

import (
	"context"
	"sync"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/pagetally/pagetally/schema"
	"github.com/pagetally/pagetally/schema/embedded/embeddedtest"
)

func TestMain(m *testing.M) { embeddedtest.Main(m) }

// sharedTables are made once: tests keep apart by their sites. They end with the engine.
var sharedTables = sync.OnceValues(func() (driver.Conn, error) {
	const database = "query_test"
	ctx := context.Background()
	admin, err := clickhouse.Open(engine.Options(""))
	if err != nil {
		return nil, err
	}
	defer func() { _ = admin.Close() }()
	if err := schema.CreateDatabase(ctx, admin, database); err != nil {
		return nil, err
	}
	conn, err := clickhouse.Open(engine.Options(database))
	if err != nil {
		return nil, err
	}
	_, err = schema.Migrate(ctx, conn, schema.Options{})
	return conn, err
})

var engine *embeddedtest.Server

func openTables(t testing.TB) driver.Conn {
	t.Helper()
	engine = embeddedtest.Shared(t)
	conn, err := sharedTables()
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func openOptions(t testing.TB, options *clickhouse.Options) driver.Conn {
	t.Helper()
	conn, err := clickhouse.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
