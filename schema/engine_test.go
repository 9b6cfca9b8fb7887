package schema

import (
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/pagetally/pagetally/schema/embedded/embeddedtest"
)

func TestMain(m *testing.M) { embeddedtest.Main(m) }

// freshDatabase is the connection to an empty database of the package's engine.
func freshDatabase(t testing.TB) driver.Conn {
	t.Helper()
	return embeddedtest.Shared(t).Database(t)
}
