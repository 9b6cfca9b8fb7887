package schema

import "time"

// DayStart is the first instant of day in loc. day names a calendar date by midnight UTC of it. Where clocks jump over midnight it is the jump; where midnight comes twice it is
// the first; a day that the zone skipped altogether starts where the next one does.
func DayStart(day time.Time, loc *time.Location) time.Time {
	t := day.Add(-24 * time.Hour) // before the day's midnight everywhere: offsets stay under 16 hours
	for {
		midnight := day.Add(-offsetAt(t, loc))
		if !midnight.After(t) {
			return t.In(loc)
		}
		change := ClockChange(t, midnight, loc)
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

// ClockChange is the first instant after from and up to to at which the clocks of loc stand otherwise than at from; the zero
// time when there is none. The ends are at most a day or two apart, so that clocks change once between them and whole seconds
// can be halved. time.ZoneBounds would not do: past the table of a zone it takes the last day of a leap year for a change.
func ClockChange(from, to time.Time, loc *time.Location) time.Time {
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
