package query

import (
	"time"

	"github.com/pagetally/pagetally/schema"
)

// Interval is the width of a bar of a time series, cut by the clock and calendar of the asked zone.
type Interval string

// The intervals. Weeks start on the site's WeekStart, unless another is asked for.
const (
	Minute Interval = "minute"
	Hour   Interval = "hour"
	Day    Interval = "day"
	Week   Interval = "week"
	Month  Interval = "month"
	Year   Interval = "year"
)

var intervals = []Interval{Minute, Hour, Day, Week, Month, Year}

// WeekStart is the first day of a week by ISO 8601: 1 is Monday, 7 is Sunday. The zero value stands for Monday.
type WeekStart int

// of is the first day of the week of day.
func (w WeekStart) of(day time.Time) time.Time {
	if w == 0 {
		w = 1
	}
	return day.AddDate(0, 0, -(int(day.Weekday())-int(w)+7)%7)
}

// MaxBars bounds a time series: an hourly year fits.
const MaxBars = 10_000

// Bar is one interval of a series, whole even where the asked range cuts it.
type Bar struct{ Start, End time.Time }

// shortest length of an interval, to estimate a number of bars from above.
func (i Interval) shortest() time.Duration {
	const day = 24 * time.Hour
	switch i {
	case Minute:
		return time.Minute
	case Hour:
		return time.Hour
	case Day:
		return day
	case Week:
		return 7 * day
	case Month:
		return 28 * day
	default:
		return 365 * day
	}
}

// defaultInterval suits a range: minutes of an hour, hours up to two days, days up to 100, months beyond.
func defaultInterval(from, to time.Time) Interval {
	switch length := to.Sub(from); {
	case length <= time.Hour:
		return Minute
	case length <= 49*time.Hour:
		return Hour
	case length <= 100*24*time.Hour:
		return Day
	default:
		return Month
	}
}

// bars cuts [from, to) in loc: every interval that overlaps the range, in order, without gaps.
func (i Interval) bars(from, to time.Time, loc *time.Location, weeks WeekStart) []Bar {
	if !from.Before(to) {
		return nil
	}
	var bars []Bar
	step := i.stepper(from, loc, weeks)
	for start := step(); start.Before(to); {
		end := step()
		for !end.After(start) { // a day the zone skipped
			end = step()
		}
		if end.After(from) {
			bars = append(bars, Bar{start, end})
		}
		start = end
	}
	return bars
}

// stepper returns the starts of intervals one after the other, from the one that holds t on.
func (i Interval) stepper(t time.Time, loc *time.Location, weeks WeekStart) func() time.Time {
	if i == Minute || i == Hour {
		next := clockStart(t.In(loc), i.shortest())
		return func() time.Time {
			start := next
			next = nextClock(start, i.shortest())
			return start
		}
	}
	day := i.firstDay(dayOf(t, loc), weeks)
	return func() time.Time {
		start := dayStart(day, loc)
		day = i.nextDay(day)
		return start
	}
}

func (i Interval) firstDay(day time.Time, weeks WeekStart) time.Time {
	switch i {
	case Week:
		return weeks.of(day)
	case Month:
		return day.AddDate(0, 0, 1-day.Day())
	case Year:
		return civil(day.Year(), time.January, 1)
	default:
		return day
	}
}

func (i Interval) nextDay(day time.Time) time.Time {
	switch i {
	case Week:
		return day.AddDate(0, 0, 7)
	case Month:
		return day.AddDate(0, 1, 0)
	case Year:
		return day.AddDate(1, 0, 0)
	default:
		return day.AddDate(0, 0, 1)
	}
}

// clockStart is when the clock of t's zone last read a full hour or minute, or changed its offset: an hour that comes twice is two
// hours, and the half hour that Lord Howe Island repeats is a bar of its own.
func clockStart(t time.Time, unit time.Duration) time.Time {
	start := t.Add(-into(t, unit))
	if change := schema.ClockChange(start, t, t.Location()); !change.IsZero() {
		return change
	}
	return start
}

func nextClock(start time.Time, unit time.Duration) time.Time {
	next := start.Add(unit - into(start, unit))
	if change := schema.ClockChange(start, next, start.Location()); !change.IsZero() {
		return change
	}
	return next
}

// into is how long ago the clock read a full unit, an hour at most.
func into(t time.Time, unit time.Duration) time.Duration {
	return (time.Duration(t.Minute())*time.Minute + time.Duration(t.Second())*time.Second + time.Duration(t.Nanosecond())) % unit
}

// label names the bar that starts at t: a date, or for hours and minutes the time with its offset.
func (i Interval) label(t time.Time) string {
	if i == Minute || i == Hour {
		return t.Format(time.RFC3339)
	}
	return t.Format(time.DateOnly)
}
