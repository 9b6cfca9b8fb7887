package periods

import (
	"cmp"
	"slices"
	"time"

	"github.com/pagetally/pagetally/schema"
)

// grain of a build, as the tables number it.
type grain uint8

const (
	days   grain = 1 // of UTC
	months grain = 2 // of UTC
	visits grain = 3 // days of the site
)

func (g grain) String() string { return [...]string{"", "day", "month", "visits"}[g] }

const daySeconds = 24 * 60 * 60

// period is a span of time that is built as a whole.
type period struct {
	grain    grain
	first    int64 // day, of UTC or of the site, since 1970
	from, to int64 // Unix seconds
}

// state is what the tables say of a site.
type state struct {
	touched map[int64]touch // by UTC day since 1970
	builds  map[period]build
	first   int64 // UTC day that was touched first
}

type touch struct {
	changes uint64
	at      time.Time // last
}

type build struct {
	id      uint64 // 0: withdrawn
	changes uint64
}

// task is a period to build, or with withdraw one whose build must not be used any more.
type task struct {
	period
	changes  uint64
	withdraw bool
}

// due lists what has to be built of what ended before closed, the newest first and days before months. waiting is the number of periods that
// were touched too recently.
func (s *state) due(site Site, closed, now time.Time, quiet time.Duration) (tasks []task, waiting int) {
	wanted := s.periods(site, closed)
	for _, p := range wanted {
		changes, last := s.changes(p)
		if b, ok := s.builds[p]; ok && b.id != 0 && b.changes == changes {
			continue
		}
		switch {
		case now.Sub(last) < quiet:
			waiting++
		case p.grain == visits && site.Retention > 0 && p.from < now.AddDate(0, 0, -site.Retention).Unix():
			// The raw events may be gone: what was built is all there is.
		default:
			tasks = append(tasks, task{period: p, changes: changes})
		}
	}
	tasks = append(tasks, s.withdrawn(wanted)...)
	slices.SortStableFunc(tasks, func(a, b task) int {
		return cmp.Or(cmp.Compare(b.first, a.first), cmp.Compare(a.grain, b.grain))
	})
	// A month is made of its days.
	slices.SortStableFunc(tasks, func(a, b task) int { return cmp.Compare(boolToInt(a.grain == months), boolToInt(b.grain == months)) })
	return tasks, waiting
}

// divide tells periods in which nothing happened, of which there is nothing to build, from the others.
func divide(due []task) (tasks, silent []task) {
	for _, t := range due {
		if t.changes == 0 && !t.withdraw {
			silent = append(silent, t)
		} else {
			tasks = append(tasks, t)
		}
	}
	return tasks, silent
}

// groups joins days of a month, which are built at once: a statement costs more than the few rows of a quiet day.
func groups(tasks []task) (list [][]task) {
	type key struct {
		grain    grain
		withdraw bool
		month    time.Time
	}
	at := map[key]int{}
	for _, t := range tasks {
		k := key{t.grain, t.withdraw, monthOf(t.first)}
		i, ok := at[k]
		if !ok || t.grain == months {
			i = len(list)
			at[k], list = i, append(list, nil)
		}
		list[i] = append(list[i], t)
	}
	return list
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// periods are all that ended before closed, from the first day with events on.
func (s *state) periods(site Site, closed time.Time) []period {
	if len(s.touched) == 0 {
		return nil
	}
	var list []period
	end := closed.Unix()
	for day := s.first; (day+1)*daySeconds <= end; day++ {
		list = append(list, period{days, day, day * daySeconds, (day + 1) * daySeconds})
	}
	for start := monthOf(s.first); start.AddDate(0, 1, 0).Unix() <= end; start = start.AddDate(0, 1, 0) {
		list = append(list, period{months, start.Unix() / daySeconds, start.Unix(), start.AddDate(0, 1, 0).Unix()})
	}
	for day := dayNumber(time.Unix(s.first*daySeconds, 0), zoneOf(site)); ; day++ {
		start, stop := dayStart(day, zoneOf(site)), dayStart(day+1, zoneOf(site))
		if stop > end {
			return list
		}
		if start < stop { // else the zone skipped the day
			list = append(list, period{visits, day, max(0, start), stop})
		}
	}
}

// changes are those of the UTC days that a period lies in, and the time of the last.
func (s *state) changes(p period) (changes uint64, last time.Time) {
	for day := p.from / daySeconds; day*daySeconds < p.to; day++ {
		t := s.touched[day]
		changes += t.changes
		if t.at.After(last) {
			last = t.at
		}
	}
	return changes, last
}

// withdrawn are builds of what is no day of the site any more. One of the same name is replaced by the day's own.
func (s *state) withdrawn(wanted []period) (tasks []task) {
	is := map[period]bool{}
	named := map[int64]bool{}
	for _, p := range wanted {
		if is[p] = true; p.grain == visits {
			named[p.first] = true
		}
	}
	for p, b := range s.builds {
		if p.grain == visits && b.id != 0 && !is[p] && !named[p.first] {
			tasks = append(tasks, task{period: p, withdraw: true})
		}
	}
	return tasks
}

func monthOf(day int64) time.Time {
	t := time.Unix(day*daySeconds, 0).UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

func zoneOf(site Site) *time.Location {
	if site.Zone == nil {
		return time.UTC
	}
	return site.Zone
}

// dayNumber is the calendar day of t in a zone, as days since 1970.
func dayNumber(t time.Time, zone *time.Location) int64 {
	year, month, day := t.In(zone).Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / daySeconds
}

// dayStart is when a day since 1970 begins in a zone, in Unix seconds.
func dayStart(day int64, zone *time.Location) int64 {
	return schema.DayStart(time.Unix(day*daySeconds, 0).UTC(), zone).Unix()
}
