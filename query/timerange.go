package query

import (
	"strings"
	"time"
)

// Event times fit DateTime columns; a range outside them has nothing to find.
const (
	firstYear = 1970
	lastYear  = 2104
)

// timeRange reads from, to and period. Dates are inclusive and local to loc; instants (RFC 3339) are half-open.
func (p *parser) timeRange(now time.Time, loc *time.Location) Range {
	from, to, period := p.values.Get("from"), p.values.Get("to"), p.values.Get("period")
	switch {
	case period != "" && (from != "" || to != ""):
		p.fail("period", "excludes from and to")
		return Range{}
	case from != "":
		return p.fromTo(from, to, now, loc)
	case to != "":
		p.fail("from", "is required with to")
		return Range{}
	case period == "":
		period = "all"
	}
	r, ok := periodRange(period, now, loc)
	if !ok {
		p.fail("period", "%.100q is not one of %s", period, strings.Join(periodNames, ", "))
	}
	return r
}

// bound is one end of a range as written: a civil day, or an instant.
type bound struct {
	day     time.Time // zero for an instant
	instant time.Time
}

// fromTo without to ends with today.
func (p *parser) fromTo(from, to string, now time.Time, loc *time.Location) Range {
	first := p.bound("from", from)
	last := bound{day: dayOf(now, loc)}
	if to != "" {
		last = p.bound("to", to)
	}
	if p.err != nil {
		return Range{}
	}
	r := Range{Loc: loc}
	switch {
	case !first.day.IsZero() && !last.day.IsZero():
		r = dayRange(first.day, last.day, loc)
	case !first.day.IsZero():
		r = instantRange(dayStart(first.day, loc), last.instant, loc)
	case !last.day.IsZero():
		r = instantRange(first.instant, dayStart(last.day.AddDate(0, 0, 1), loc), loc)
	default:
		r = instantRange(first.instant, last.instant, loc)
	}
	if r.To.Before(r.From) || r.last.Before(r.first) {
		p.fail(p.lastGiven(to), "the range ends before it starts")
	}
	return r
}

func (p *parser) lastGiven(to string) string {
	if to == "" {
		return "from"
	}
	return "to"
}

func (p *parser) bound(field, v string) bound {
	var b bound
	if day, err := time.Parse(time.DateOnly, v); err == nil {
		b.day = day
	} else if t, err := time.Parse(time.RFC3339, restorePlus(v)); err == nil {
		b.instant = ceilMilli(t.UTC())
	} else {
		p.fail(field, "%.100q is neither a date (2006-01-02) nor an instant with its offset (2006-01-02T15:04:05Z)", v)
		return b
	}
	if year := max(b.day.Year(), b.instant.Year()); year < firstYear || year > lastYear {
		p.fail(field, "%.100q is outside the years %d to %d", v, firstYear, lastYear)
	}
	return b
}

// restorePlus mends an offset whose plus sign a URL turned into a space.
func restorePlus(v string) string {
	if i := strings.LastIndexByte(v, ' '); i > 0 && len(v)-i == len("+00:00") && strings.IndexByte(v, 'T') > 0 {
		return v[:i] + "+" + v[i+1:]
	}
	return v
}
