package query

import (
	"fmt"
	"sync"
	"time"
	_ "time/tzdata" // a host without zone files answers alike

	"github.com/pagetally/pagetally/schema"
)

// A civil day is a time.Time at midnight UTC that names a calendar date; it stands for no instant until dayStart gives it a zone.

func civil(year int, month time.Month, day int) time.Time {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}

// dayOf is the calendar day of t in loc.
func dayOf(t time.Time, loc *time.Location) time.Time {
	return civil(t.In(loc).Date())
}

func dayStart(day time.Time, loc *time.Location) time.Time { return schema.DayStart(day, loc) }

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
