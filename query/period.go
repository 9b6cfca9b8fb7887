package query

import (
	"strconv"
	"strings"
	"time"
)

// Range is a half-open span of instants, read in a zone.
type Range struct {
	From, To time.Time // in Loc, whole milliseconds
	Loc      *time.Location
	// All asks for everything there is; From is known only after the Store looked at the site.
	All bool

	// first and last are the civil days of a range made of dates, both included; zero otherwise.
	first, last time.Time
}

func dayRange(first, last time.Time, loc *time.Location) Range {
	return Range{From: dayStart(first, loc), To: dayStart(last.AddDate(0, 0, 1), loc), Loc: loc, first: first, last: last}
}

func instantRange(from, to time.Time, loc *time.Location) Range {
	return Range{From: from.In(loc), To: to.In(loc), Loc: loc}
}

// periodNames in the order in which an error names them.
var periodNames = []string{"day", "24h", "7d", "28d", "30d", "91d", "month", "6mo", "12mo", "year", "realtime", "all"}

// periodRange resolves a named period. day, month and year are the current ones; Nd and Nmo are the last complete days and
// months, so that a number does not grow while it is looked at; 24h, and realtime, which is half an hour, end now.
func periodRange(period string, now time.Time, loc *time.Location) (Range, bool) {
	today := dayOf(now, loc)
	firstOfMonth := Month.firstDay(today, 0)
	switch period {
	case "day":
		return dayRange(today, today, loc), true
	case "24h":
		return instantRange(ceilMilli(now.Add(-24*time.Hour)), ceilMilli(now), loc), true
	case "7d", "28d", "30d", "91d":
		n, _ := strconv.Atoi(strings.TrimSuffix(period, "d"))
		return dayRange(today.AddDate(0, 0, -n), today.AddDate(0, 0, -1), loc), true
	case "month":
		return dayRange(firstOfMonth, firstOfMonth.AddDate(0, 1, -1), loc), true
	case "6mo", "12mo":
		n, _ := strconv.Atoi(strings.TrimSuffix(period, "mo"))
		return dayRange(firstOfMonth.AddDate(0, -n, 0), firstOfMonth.AddDate(0, 0, -1), loc), true
	case "year":
		return dayRange(civil(today.Year(), time.January, 1), civil(today.Year(), time.December, 31), loc), true
	case "realtime":
		return instantRange(ceilMilli(now.Add(-spanHalf*time.Minute)), ceilMilli(now), loc), true
	case "all":
		return Range{Loc: loc, All: true}, true
	}
	return Range{}, false
}

// allOf gives a range over all the extent that First is the first instant of: whole days, today included. An event may carry a
// time a few minutes ahead of now, hence the slack around midnight.
func allOf(first, now time.Time, loc *time.Location) Range {
	const ahead = 15 * time.Minute
	last := dayOf(now.Add(ahead), loc)
	if first.After(now) {
		first = now
	}
	r := dayRange(dayOf(first, loc), last, loc)
	r.All = true
	return r
}

// Comparison names what a range is compared with.
type Comparison string

// The comparisons: the span of equal length just before, and the same dates a year before.
const (
	ComparePrevious Comparison = "previous"
	CompareYear     Comparison = "year"
)

var comparisons = []Comparison{ComparePrevious, CompareYear}

// compared is the range that r is compared with. Dates stay dates: the year before is found in the calendar, not by days.
func (r Range) compared(c Comparison) Range {
	if r.first.IsZero() {
		if c == CompareYear {
			return instantRange(r.From.AddDate(-1, 0, 0), r.To.AddDate(-1, 0, 0), r.Loc)
		}
		return instantRange(r.From.Add(-r.To.Sub(r.From)), r.From, r.Loc)
	}
	if c == CompareYear {
		return dayRange(yearBefore(r.first), yearBefore(r.last), r.Loc)
	}
	days := int(r.last.Sub(r.first).Hours())/24 + 1
	return dayRange(r.first.AddDate(0, 0, -days), r.first.AddDate(0, 0, -1), r.Loc)
}

// yearBefore is the same date of the year before; 29 February becomes the 28th.
func yearBefore(day time.Time) time.Time {
	if day.Month() == time.February && day.Day() == 29 {
		return civil(day.Year()-1, time.February, 28)
	}
	return day.AddDate(-1, 0, 0)
}

// ceilMilli rounds up to the resolution of event times, which keeps half-open comparisons exact.
func ceilMilli(t time.Time) time.Time {
	return t.Add(time.Millisecond - 1).Truncate(time.Millisecond)
}
