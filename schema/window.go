package schema

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// MinClaimWindow is the shortest time in which the same id on the same site must be one event.
const MinClaimWindow = 24 * time.Hour

// KeepEventIDs makes event_ids remember ids for the claim window and a day, in whole hours; as made by the migrations it is 3 days.
// A shorter window holds for ids stored from then on, a longer one cannot bring back those that went. It may be called at every
// start.
func KeepEventIDs(ctx context.Context, conn driver.Conn, window time.Duration) error {
	if window < MinClaimWindow {
		return fmt.Errorf("claim window of %v is under %v", window, MinClaimWindow)
	}
	hours := int((window + 24*time.Hour + time.Hour - 1) / time.Hour)
	// Parts that are there keep the time they were written with: rewriting them would only be in the way of a start.
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"materialize_ttl_after_modify": 0}))
	err := conn.Exec(ctx, "ALTER TABLE event_ids MODIFY TTL toDateTime(received_at) + INTERVAL "+strconv.Itoa(hours)+" HOUR")
	if err != nil {
		return fmt.Errorf("set time to live of event ids: %w", err)
	}
	return nil
}
