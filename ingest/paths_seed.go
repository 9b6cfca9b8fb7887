package ingest

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// seedRetry is how long SeedPaths waits between tries.
const seedRetry = 10 * time.Second

// SeedPaths learns from ClickHouse which paths were counted today, so that a restart does not give each site its number of new
// ones again. It tries until it has them or ctx ends, and then waits for ctx. Until it has them, events are taken as on a new day.
func (s *Server) SeedPaths(ctx context.Context, conn driver.Conn) error {
	warned := false
	for {
		err := s.seedPaths(ctx, conn)
		if err == nil {
			break
		}
		if !warned && ctx.Err() == nil {
			warned = true
			s.refusals.log.Warn("today's paths cannot be read, new ones are counted from none", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(seedRetry):
		}
	}
	<-ctx.Done()
	return nil
}

// seedPaths reads today's paths. Those of imports count, too: which are whose is not told apart in the counter.
func (s *Server) seedPaths(ctx context.Context, conn driver.Conn) error {
	day := utcDay(s.now().UnixMilli())
	rows, err := conn.Query(ctx, `SELECT toString(site), path_key FROM views WHERE bucket >= toDateTime($1, 'UTC') AND path_key != $2 AND job = ''
		GROUP BY site, path_key LIMIT $3 BY site LIMIT $4`, int64(day)*86400, FoldedPath, maxPaths, maxPaths)
	if err != nil {
		return fmt.Errorf("query paths: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var site, path string
		if err := rows.Scan(&site, &path); err != nil {
			return fmt.Errorf("read paths: %w", err)
		}
		s.paths.admit(site, path, maxPaths, day, false)
	}
	return rows.Err()
}
