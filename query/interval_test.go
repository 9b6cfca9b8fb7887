package query

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDayStart(t *testing.T) {
	tests := []struct{ name, zone, day, want string }{
		{"plain", "Europe/Berlin", "2025-06-01", "2025-05-31T22:00:00Z"},
		{"day the clocks go forward", "Europe/Berlin", "2025-03-30", "2025-03-29T23:00:00Z"},
		{"quarter hours", "Asia/Kathmandu", "2025-06-15", "2025-06-14T18:15:00Z"},
		{"+12:45", "Pacific/Chatham", "2025-07-01", "2025-06-30T11:15:00Z"},
		{"-3:30", "America/St_Johns", "2025-01-02", "2025-01-02T03:30:00Z"},
		{"midnight does not exist", "America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00Z"},
		{"midnight does not exist, Beirut", "Asia/Beirut", "2025-03-30", "2025-03-29T22:00:00Z"},
		{"midnight comes twice", "America/Havana", "2025-11-02", "2025-11-02T04:00:00Z"},
		{"clock falls back at midnight", "America/Sao_Paulo", "2018-02-18", "2018-02-18T03:00:00Z"},
		{"skipped day", "Pacific/Apia", "2011-12-30", "2011-12-30T10:00:00Z"},
		{"day after the skipped one", "Pacific/Apia", "2011-12-31", "2011-12-30T10:00:00Z"},
		{"odd offset", "Africa/Monrovia", "1971-06-01", "1971-06-01T00:44:30Z"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			day, _ := time.Parse(time.DateOnly, test.day)
			if got := dayStart(day, mustZone(t, test.zone)); !got.Equal(at(test.want)) {
				t.Errorf("got %s, want %s", got.UTC().Format(time.RFC3339), test.want)
			}
		})
	}
}

func TestBars(t *testing.T) {
	tests := []struct {
		name, zone string
		interval   Interval
		from, to   string
		want       []string
	}{
		{"half hour comes twice", "Australia/Lord_Howe", Hour, "2025-04-05T14:00:00Z", "2025-04-05T16:30:00Z", []string{
			"2025-04-06T01:00:00+11:00", "2025-04-06T01:30:00+10:30", "2025-04-06T02:00:00+10:30"}},
		{"half hour is skipped", "Australia/Lord_Howe", Hour, "2025-10-04T14:30:00Z", "2025-10-04T17:00:00Z", []string{
			"2025-10-05T01:00:00+10:30", "2025-10-05T02:30:00+11:00", "2025-10-05T03:00:00+11:00"}},
		{"hours of a quarter-hour zone", "Asia/Kathmandu", Hour, "2025-06-01T00:00:00Z", "2025-06-01T01:30:00Z", []string{
			"2025-06-01T05:00:00+05:45", "2025-06-01T06:00:00+05:45", "2025-06-01T07:00:00+05:45"}},
		{"skipped day is no bar", "Pacific/Apia", Day, "2011-12-29T20:00:00Z", "2012-01-01T00:00:00Z", []string{
			"2011-12-29", "2011-12-31", "2012-01-01"}},
		{"weeks over a new year", "UTC", Week, "2024-12-31T00:00:00Z", "2025-01-07T00:00:00Z", []string{"2024-12-30", "2025-01-06"}},
		{"months of unequal length", "UTC", Month, "2024-01-31T00:00:00Z", "2024-03-02T00:00:00Z", []string{"2024-01-01", "2024-02-01", "2024-03-01"}},
		{"nothing", "UTC", Day, "2024-01-31T00:00:00Z", "2024-01-31T00:00:00Z", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, bar := range test.interval.bars(at(test.from), at(test.to), mustZone(t, test.zone), 0) {
				got = append(got, test.interval.label(bar.Start))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestWeekStart(t *testing.T) {
	tests := []struct {
		start WeekStart
		want  []string // of 2025-03-02, a Sunday, to 2025-03-10, a Monday
	}{
		{0, []string{"2025-02-24", "2025-03-03"}},
		{1, []string{"2025-02-24", "2025-03-03"}},
		{6, []string{"2025-03-01", "2025-03-08"}},
		{7, []string{"2025-03-02", "2025-03-09"}},
	}
	for _, tt := range tests {
		var got []string
		for _, bar := range Week.bars(at("2025-03-02T00:00:00Z"), at("2025-03-10T00:00:00Z"), time.UTC, tt.start) {
			got = append(got, Week.label(bar.Start))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%d: (-want +got)\n%s", tt.start, diff)
		}
	}
}

// Bars follow each other without gap or overlap, cover the range, and hold the hour, day or month they are named after.
func TestBarsTile(t *testing.T) {
	for _, zone := range []string{
		"UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Chatham", "America/Sao_Paulo",
		"Africa/Monrovia", "Pacific/Apia", "Asia/Beirut", "America/Havana", "Antarctica/Troll", "Africa/Casablanca", "Asia/Tehran",
	} {
		loc := mustZone(t, zone)
		for _, interval := range intervals {
			for year := 1971; year < 2026; year += 3 {
				from := time.Date(year, 2, 27, 13, 17, 0, 0, time.UTC)
				to := from.Add(interval.shortest() * 300)
				if interval == Year {
					to = from.AddDate(12, 0, 0)
				}
				bars := interval.bars(from, to, loc, 0)
				if first, last := bars[0], bars[len(bars)-1]; first.Start.After(from) || !first.End.After(from) || !last.Start.Before(to) || last.End.Before(to) {
					t.Fatalf("%s %s: bars %v to %v do not cover %v to %v", zone, interval, first, last, from, to)
				}
				for i, bar := range bars {
					if i > 0 && !bars[i-1].End.Equal(bar.Start) || !bar.Start.Before(bar.End) {
						t.Fatalf("%s %s: bar %d is %v after %v", zone, interval, i, bar, bars[i-1])
					}
					last := bar.End.Add(-1)
					if interval == Hour && (bar.Start.Hour() != last.Hour() || bar.End.Sub(bar.Start) > time.Hour) {
						t.Fatalf("%s: hour bar %v runs into another hour", zone, bar)
					}
					if interval == Minute && (bar.Start.Minute() != last.Minute() || bar.End.Sub(bar.Start) > time.Minute) {
						t.Fatalf("%s: minute bar %v runs into another minute", zone, bar)
					}
					if interval == Year && (bar.Start.YearDay() != 1 || bar.Start.Year() != last.Year()) {
						t.Fatalf("%s: year bar %v is no year", zone, bar)
					}
					if interval == Month && bar.Start.Month() != last.Month() {
						t.Fatalf("%s: month bar %v runs into another month", zone, bar)
					}
				}
			}
		}
	}
}
