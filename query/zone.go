package query

import (
	"fmt"
	"sync"
	"time"
	_ "time/tzdata" // a host without zone files answers alike
)

// A civil day is a time.Time at midnight UTC that names a calendar date; it stands for no instant until dayStart gives it a zone.

func civil(year int, month time.Month, day int) time.Time {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// dayOf is the calendar day of t in loc.
func dayOf(t time.Time, loc *time.Location) time.Time {
	return civil(t.In(loc).Date())
}

// dayStart is the first instant of day in loc. Where clocks jump over midnight it is the jump; where midnight comes twice it is
// the first; a day that the zone skipped altogether starts where the next one does.
func dayStart(day time.Time, loc *time.Location) time.Time {
	t := day.Add(-24 * time.Hour) // before the day's midnight everywhere: offsets stay under 16 hours
	for {
		midnight := day.Add(-offsetAt(t, loc))
		if !midnight.After(t) {
			return t.In(loc)
		}
		change := changeWithin(t, midnight, loc)
		if change.IsZero() {
			return midnight.In(loc)
		}
		t = change
	}
}

func offsetAt(t time.Time, loc *time.Location) time.Duration {
	_, seconds := t.In(loc).Zone()
	return time.Duration(seconds) * time.Second
}

// changeWithin is the first instant after from and up to to at which the clocks of loc stand otherwise than at from; the zero
// time when there is none. The ends are at most a day or two apart, so that clocks change once between them and whole seconds
// can be halved. time.ZoneBounds would not do: past the table of a zone it takes the last day of a leap year for a change.
func changeWithin(from, to time.Time, loc *time.Location) time.Time {
	before := offsetAt(from, loc)
	if offsetAt(to, loc) == before {
		return time.Time{}
	}
	lo, hi := from.Unix(), to.Unix()
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; offsetAt(time.Unix(mid, 0), loc) == before {
			lo = mid
		} else {
			hi = mid
		}
	}
	return time.Unix(hi, 0).In(loc)
}

// zones caches what LoadLocation read; only names that exist are kept, which bounds it.
var zones sync.Map

// loadZone finds an IANA zone. "Local" is refused: an answer must not depend on the host.
func loadZone(name string) (*time.Location, error) {
	if loc, ok := zones.Load(name); ok {
		return loc.(*time.Location), nil
	}
	if name == "" || name == "Local" {
		return nil, fmt.Errorf("unknown time zone %q", name)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("unknown time zone %q", name)
	}
	zones.Store(name, loc)
	return loc, nil
}
