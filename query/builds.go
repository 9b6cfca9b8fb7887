package query

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

const dayMS = 24 * 60 * 60 * 1000

// build is a closed period whose rows can be read in place of finer ones.
type build struct {
	span
	period int64  // days since 1970 of the period's first day, which is how its rows name it
	id     uint64 // that its rows carry
}

// periods are the builds of a site that hold all there is of their periods, as of one moment.
type periods struct {
	days, months map[int64]build // of UTC, by their start in Unix milliseconds
	visits       []build         // of the site's days, in order and without overlaps
}

// Grains of builds, as the table numbers them.
const (
	grainDay    = 1
	grainMonth  = 2
	grainVisits = 3
)

// periodsSQL reads the builds that lie in a span and what touched its days: columns grain (0: a day's changes), period, build, start,
// stop (Unix seconds) and changes.
func periodsSQL(site string, s span) statement {
	return statement{
		sql: `SELECT kind, first_day, build, start, stop, changes
FROM
(
    SELECT toUInt8(grain) AS kind, toUInt16(period) AS first_day, build, toInt64(toUnixTimestamp(b.from)) AS start, toInt64(toUnixTimestamp(b.to)) AS stop, changes
    FROM builds AS b FINAL
    WHERE site = {site:String} AND build != 0 AND b.to > fromUnixTimestamp({from:Int64}) AND b.from < fromUnixTimestamp({to:Int64})
    UNION ALL
    SELECT toUInt8(0), toUInt16(day), toUInt64(0), toInt64(0), toInt64(0), sum(touched.changes)
    FROM touched
    WHERE site = {site:String} AND day >= {first:Date} AND day <= {last:Date}
    GROUP BY day
)
ORDER BY kind, start`,
		params: []param{
			{"site", site}, {"from", fmt.Sprint(s.from / 1000)}, {"to", fmt.Sprint((s.to + 999) / 1000)},
			// A build that begins before the span or ends after it lies in up to a month more.
			{"first", dateParam(s.from - 32*dayMS)}, {"last", dateParam(s.to + 32*dayMS)},
		},
	}
}

// lastDay is the greatest value of a Date column.
var lastDay = time.Date(2149, 6, 6, 0, 0, 0, 0, time.UTC)

func dateParam(ms int64) string {
	t := time.UnixMilli(max(0, ms)).UTC()
	if t.After(lastDay) {
		t = lastDay
	}
	return t.Format(time.DateOnly)
}

// periods reads which builds of a site are current. It is read before anything that the builds stand in for.
func (s *Store) periods(ctx context.Context, r *Request, in span) (periods, error) {
	type row struct {
		build
		grain   uint8
		changes uint64
	}
	var found []row
	changes := map[int64]uint64{}
	err := s.ask(ctx, r, periodsSQL(r.Site, in), func(rows driver.Rows) error {
		var b row
		var day uint16
		var start, stop int64
		if err := rows.Scan(&b.grain, &day, &b.id, &start, &stop, &b.changes); err != nil {
			return err
		}
		if b.grain == 0 {
			changes[int64(day)] = b.changes
			return nil
		}
		b.period, b.span = int64(day), span{start * 1000, stop * 1000}
		found = append(found, b)
		return nil
	})
	if err != nil {
		return periods{}, fmt.Errorf("read builds: %w", err)
	}
	p := periods{days: map[int64]build{}, months: map[int64]build{}}
	for _, b := range found {
		var now uint64
		for day := b.from / dayMS; day*dayMS < b.to; day++ {
			now += changes[day]
		}
		switch {
		case now != b.changes: // touched since
		case b.grain == grainDay:
			p.days[b.from] = b.build
		case b.grain == grainMonth:
			p.months[b.from] = b.build
		case b.grain == grainVisits:
			p.addVisits(b.build)
		}
	}
	return p, nil
}

// addVisits keeps builds in order. Where two overlap, because the site changed its zone, the earlier one is kept.
func (p *periods) addVisits(b build) {
	if n := len(p.visits); n > 0 && p.visits[n-1].to > b.from {
		return
	}
	p.visits = append(p.visits, b)
}

// cut divides a span at UTC midnights: month and day get the builds that lie in it, the longest that fit, and rest what has none.
func (p *periods) cut(s span, month, day func(build), rest func(span)) {
	for t := s.from; t < s.to; {
		if b, ok := p.months[t]; ok && b.to <= s.to {
			month(b)
			t = b.to
			continue
		}
		if b, ok := p.days[t]; ok && b.to <= s.to {
			day(b)
			t = b.to
			continue
		}
		end := min(s.to, (t/dayMS+1)*dayMS)
		rest(span{t, end})
		t = end
	}
}
