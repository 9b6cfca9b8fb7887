package query

import (
	"time"
)

// derived says where visits come from: closed days have been built, the rest is cut from raw events. Visits never reach over the
// midnights of their site, so that whole days of raw events give whole visits.
type derived struct {
	whole  span    // visits that began in it
	builds []build // of closed days, in order
	gaps   []span  // between the builds, in order: visits that began in them are cut from raw events
	raw    []span  // whole days of the site that hold the gaps
	days   []int64 // Unix seconds: starts of the days in raw
}

// deriveVisits covers a range with builds, and with raw events where there are none.
func deriveVisits(r *Request, whole span, builds []build) derived {
	d := derived{whole: whole}
	if whole.empty() {
		return d
	}
	at := whole.from
	for _, b := range builds {
		if !b.overlaps(whole) {
			continue
		}
		d.addGap(r.zone(), span{at, min(b.from, whole.to)})
		d.builds = append(d.builds, b)
		at = max(at, b.to)
	}
	d.addGap(r.zone(), span{at, whole.to})
	return d
}

func (d *derived) addGap(zone *time.Location, gap span) {
	if gap.empty() {
		return
	}
	d.gaps = append(d.gaps, gap)
	days := Day.bars(time.UnixMilli(gap.from), time.UnixMilli(gap.to), zone, 0)
	for _, day := range days {
		start, end := max(0, day.Start.UnixMilli()), day.End.UnixMilli()
		if n := len(d.raw); n > 0 && d.raw[n-1].to >= start {
			if d.raw[n-1].to >= end {
				continue
			}
			d.raw[n-1].to = end
		} else {
			d.raw = append(d.raw, span{start, end})
		}
		d.days = append(d.days, start/1000)
	}
}

// unbuilt is d as if nothing had been built.
func (d derived) unbuilt(r *Request) derived { return deriveVisits(r, d.whole, nil) }

// zone is that of the site's days.
func (r *Request) zone() *time.Location {
	if r.SiteZone == nil {
		return time.UTC
	}
	return r.SiteZone
}
