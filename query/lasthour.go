package query

import (
	"context"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/pagetally/pagetally/schema"
)

// lastHour reads from ClickHouse what Hot reads from Redis. Minutes are finer than the rollups, so raw events are read: an hour of
// one site, which their order keeps together.
func (s *Store) lastHour(ctx context.Context, site string, minute int64) (*minuteCounts, error) {
	m := newMinuteCounts(sourceExact)
	first := minute - spanHour + 1
	during := func(span int64) []param {
		return []param{
			{"site", site}, {"from", fmt.Sprint((minute - span + 1) * 60)}, {"to", fmt.Sprint((minute + 1) * 60)},
		}
	}
	const where = `FROM events WHERE site = {site:String} AND name != 'engagement'
AND ts >= fromUnixTimestamp64Milli({from:Int64} * 1000) AND ts < fromUnixTimestamp64Milli({to:Int64} * 1000)`

	err := s.each(ctx, statement{`SELECT intDiv(toUnixTimestamp(ts), 60) AS minute, sumIf(n, name = 'pageview') ` + where + ` GROUP BY minute`, during(spanHour)},
		func(rows driver.Rows) error {
			var at uint32
			var views int64
			if err := rows.Scan(&at, &views); err != nil {
				return err
			}
			if i := int64(at) - first; i >= 0 && i < spanHour {
				m.views[i] = views
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	visitors := statement{`SELECT uniqExactIf(visitor, visitor != 0 AND ts >= fromUnixTimestamp64Milli({now:Int64} * 1000)), uniqExactIf(visitor, visitor != 0) ` + where,
		append(during(spanHalf), param{"now", fmt.Sprint((minute - spanNow + 1) * 60)})}
	err = s.each(ctx, visitors, func(rows driver.Rows) error {
		var now, half uint64
		err := rows.Scan(&now, &half)
		m.visitors5, m.visitors30 = int64(now), int64(half)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, list := range schema.HotLists {
		top := statement{`SELECT toString(` + list.Column + `) AS value, sum(n) AS views ` + where + ` AND name = 'pageview' GROUP BY value ORDER BY views DESC, value LIMIT ` + fmt.Sprint(topNow),
			during(spanNow)}
		err := s.each(ctx, top, func(rows driver.Rows) error {
			var value string
			var views int64
			if err := rows.Scan(&value, &views); err != nil {
				return err
			}
			m.lists[list.Prefix][value] = views
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}
