package aggregate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// UnverifiableError says that the raw events of a part of the range are not there: beyond a site's retention, or dropped. Nothing can
// be compared with them, and a repair would take away what the rollups rightly hold.
type UnverifiableError struct {
	Sites []string   // that lack events
	Days  []DayRange // without events of one of them
	Left  []DayRange // of the range, that can be verified
}

// DayRange is some days, both ends included.
type DayRange struct{ From, To time.Time }

func (r DayRange) String() string {
	if r.From.Equal(r.To) {
		return r.From.Format(time.DateOnly)
	}
	return r.From.Format(time.DateOnly) + " to " + r.To.Format(time.DateOnly)
}

func (e *UnverifiableError) Error() string {
	left := "nothing of the range can be verified"
	if len(e.Left) > 0 {
		left = "what can be verified is " + listed(e.Left)
	}
	sites := e.Sites
	more := ""
	if len(sites) > 5 {
		more = fmt.Sprintf(" and %d more sites", len(sites)-5)
		sites = sites[:5]
	}
	return fmt.Sprintf("no raw events of %s%s on %s: %s", strings.Join(sites, ", "), more, listed(e.Days), left)
}

func listed(ranges []DayRange) string {
	texts := make([]string, len(ranges))
	for i, r := range ranges {
		texts[i] = r.String()
	}
	return strings.Join(texts, ", ")
}

// lackTries is how often days without raw events are looked for until it is believed: the first events of a site reach one table
// before the other.
const lackTries = 3

// checkRange refuses a range whose raw events are gone, and leaves out what other sites do not keep any more.
func (v *verifier) checkRange(ctx context.Context) error {
	v.readRetention()
	if first, ok := v.keptFrom[v.cfg.Site]; ok {
		return v.unverifiable(map[string][]time.Time{v.cfg.Site: daysBetween(v.cfg.From, first.AddDate(0, 0, -1))})
	}
	for try := 1; ; try++ {
		lacking, err := v.withoutEvents(ctx)
		if err != nil {
			return err
		}
		if len(lacking) == 0 {
			return nil
		}
		if try == lackTries {
			return v.unverifiable(lacking)
		}
		if err := pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
}

// readRetention finds the sites that do not keep the whole range. The day that the retention ends in is kept in part only.
func (v *verifier) readRetention() {
	for site, days := range v.cfg.Retention {
		if days <= 0 || v.cfg.Site != "" && site != v.cfg.Site {
			continue
		}
		first := utcDay(v.cfg.now()).AddDate(0, 0, 1-days)
		if first.After(v.cfg.From) {
			v.keptFrom[site] = first
			if v.found.Shortened == nil {
				v.found.Shortened = map[string]string{}
			}
			v.found.Shortened[site] = first.Format(time.DateOnly)
		}
	}
}

// beyondRetention lists the sites that do not keep a day any more.
func (v *verifier) beyondRetention(day time.Time) []string {
	sites := []string{}
	for site, first := range v.keptFrom {
		if day.Before(first) {
			sites = append(sites, site)
		}
	}
	return sites
}

// withoutEvents finds the days of sites that are counted in rollups and lie before every event of the site, or in a month in which
// `events` holds none of it. A day in between is none of them: it may well be the difference that is looked for.
func (v *verifier) withoutEvents(ctx context.Context) (map[string][]time.Time, error) {
	counted, err := v.countedDays(ctx)
	if err != nil {
		return nil, fmt.Errorf("read counted days: %w", err)
	}
	held, err := v.heldEvents(ctx)
	if err != nil {
		return nil, fmt.Errorf("read days with events: %w", err)
	}
	lacking := map[string][]time.Time{}
	for site, days := range counted {
		for _, day := range days {
			month := uint32(day.Year()*100 + int(day.Month()))
			h, ok := held[site]
			if kept, limited := v.keptFrom[site]; limited && day.Before(kept) {
				continue
			}
			if !ok || day.Before(h.first) || !slices.Contains(h.months, month) {
				lacking[site] = append(lacking[site], day)
			}
		}
	}
	return lacking, nil
}

// countedDays lists the days of the range that the sums of a site are not zero on.
func (v *verifier) countedDays(ctx context.Context) (map[string][]time.Time, error) {
	const days = `SELECT toString(site) AS s, toDate(bucket) AS day FROM %s
WHERE bucket >= fromUnixTimestamp({from:Int64}) AND bucket < fromUnixTimestamp({to:Int64}) AND ({site:String} = '' OR site = {site:String})
GROUP BY s, day HAVING sum(n) != 0`
	rows, err := v.conn.Query(ctx, "SELECT s, groupUniqArray(day) FROM ("+fmt.Sprintf(days, "views")+" UNION ALL "+fmt.Sprintf(days, "visitors")+") GROUP BY s",
		clickhouse.Named("from", fmt.Sprint(v.cfg.From.Unix())), clickhouse.Named("to", fmt.Sprint(v.cfg.To.AddDate(0, 0, 1).Unix())),
		clickhouse.Named("site", v.cfg.Site))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	counted := map[string][]time.Time{}
	for rows.Next() {
		var site string
		var days []time.Time
		if err := rows.Scan(&site, &days); err != nil {
			return nil, err
		}
		for i := range days {
			days[i] = utcDay(days[i])
		}
		counted[site] = days
	}
	return counted, rows.Err()
}

// heldDays says of which time there are raw events of a site.
type heldDays struct {
	first  time.Time
	months []uint32 // as 202501
}

func (v *verifier) heldEvents(ctx context.Context) (map[string]heldDays, error) {
	rows, err := v.conn.Query(ctx, `SELECT toString(site) AS s, min(toDate(ts)), groupUniqArray(toYYYYMM(ts)) FROM events
WHERE {site:String} = '' OR site = {site:String} GROUP BY s`, clickhouse.Named("site", v.cfg.Site))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	held := map[string]heldDays{}
	for rows.Next() {
		var site string
		var h heldDays
		if err := rows.Scan(&site, &h.first, &h.months); err != nil {
			return nil, err
		}
		h.first = utcDay(h.first)
		held[site] = h
	}
	return held, rows.Err()
}

func (v *verifier) unverifiable(lacking map[string][]time.Time) error {
	e := &UnverifiableError{}
	var days []time.Time
	for site, lacks := range lacking {
		e.Sites = append(e.Sites, site)
		days = append(days, lacks...)
	}
	slices.Sort(e.Sites)
	slices.SortFunc(days, time.Time.Compare)
	days = slices.DeleteFunc(slices.Compact(days), func(day time.Time) bool { return day.After(v.cfg.To) })
	e.Days = joined(days)
	e.Left = joined(slices.DeleteFunc(daysBetween(v.cfg.From, v.cfg.To), func(day time.Time) bool {
		_, lacks := slices.BinarySearchFunc(days, day, time.Time.Compare)
		return lacks
	}))
	return e
}

func daysBetween(from, to time.Time) (days []time.Time) {
	for day := from; !day.After(to); day = day.AddDate(0, 0, 1) {
		days = append(days, day)
	}
	return days
}

// joined turns days in order into ranges.
func joined(days []time.Time) (ranges []DayRange) {
	for _, day := range days {
		if last := len(ranges) - 1; last >= 0 && ranges[last].To.AddDate(0, 0, 1).Equal(day) {
			ranges[last].To = day
			continue
		}
		ranges = append(ranges, DayRange{day, day})
	}
	return ranges
}
