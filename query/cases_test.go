package query

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// everyHour lists instants one hour apart, n of them from first on.
func everyHour(first string, n int) []string {
	times := make([]string, n)
	for i := range times {
		times[i] = at(first).Add(time.Duration(i) * time.Hour).Format(time.RFC3339)
	}
	return times
}

func TestHoursOfADay(t *testing.T) {
	s := newTables(t)
	s.insert(viewsAt(everyHour("2025-03-29T22:30:00Z", 25)...)...)
	s.insert(viewsAt("2025-10-26T00:30:00Z", "2025-10-26T00:30:00Z")...)
	s.insert(viewsAt("2025-10-26T01:30:00Z", "2025-10-26T01:30:00Z", "2025-10-26T01:30:00Z", "2025-10-26T01:30:00Z", "2025-10-26T01:30:00Z")...)
	s.insert(viewsAt("2025-03-10T03:30:00Z", "2025-06-10T07:10:00Z")...)

	t.Run("23 hours", func(t *testing.T) {
		got := s.series("Europe/Berlin", "from", "2025-03-30", "to", "2025-03-30", "interval", "hour")
		if len(got.Results) != 23 {
			t.Fatalf("%d bars, want 23", len(got.Results))
		}
		for i, bar := range got.Results {
			hour := i
			if hour >= 2 {
				hour++ // 02:00 does not exist
			}
			start := at(bar.Start)
			if start.In(mustZone(t, "Europe/Berlin")).Hour() != hour || *bar.Views != 1 {
				t.Errorf("bar %d starts %s with %d views, want hour %d with 1", i, bar.Start, *bar.Views, hour)
			}
		}
	})
	t.Run("25 hours", func(t *testing.T) {
		got := s.series("Europe/Berlin", "from", "2025-10-26", "to", "2025-10-26", "interval", "hour")
		want := map[string]int64{"2025-10-26T02:00:00+02:00": 2, "2025-10-26T02:00:00+01:00": 5}
		if diff := cmp.Diff(want, bars(got)); diff != "" || len(got.Results) != 25 {
			t.Errorf("%d bars, want 25; (-want +got)\n%s", len(got.Results), diff)
		}
	})
	t.Run("last hour of a short day", func(t *testing.T) {
		got := s.series("America/Detroit", "from", "2025-03-09", "to", "2025-03-09", "interval", "hour")
		want := map[string]int64{"2025-03-09T23:00:00-04:00": 1}
		if diff := cmp.Diff(want, bars(got)); diff != "" || len(got.Results) != 23 {
			t.Errorf("%d bars, want 23; (-want +got)\n%s", len(got.Results), diff)
		}
	})
	t.Run("half-hour zone", func(t *testing.T) {
		got := s.series("Asia/Tehran", "from", "2025-06-10", "to", "2025-06-10", "interval", "hour")
		want := map[string]int64{"2025-06-10T10:00:00+03:30": 1}
		if diff := cmp.Diff(want, bars(got)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

func TestCalendarBars(t *testing.T) {
	tests := []struct {
		name  string
		zone  string
		views []string
		ask   []string
		want  map[string]int64
	}{
		{"days of a half-hour zone", "Asia/Kolkata", []string{"2025-06-14T18:29:59Z", "2025-06-14T18:30:00Z"},
			[]string{"from", "2025-06-14", "to", "2025-06-15", "interval", "day"}, map[string]int64{"2025-06-14": 1, "2025-06-15": 1}},
		{"days of a quarter-hour zone", "Asia/Kathmandu", []string{"2025-06-14T18:14:59.999Z", "2025-06-14T18:15:00Z"},
			[]string{"from", "2025-06-14", "to", "2025-06-15", "interval", "day"}, map[string]int64{"2025-06-14": 1, "2025-06-15": 1}},
		{"morning east of Greenwich", "Asia/Shanghai", []string{"2025-06-10T17:00:00Z"},
			[]string{"from", "2025-06-01", "to", "2025-06-30", "interval", "day"}, map[string]int64{"2025-06-11": 1}},
		{"weeks start on Monday", "UTC", []string{"2025-03-02T23:59:59Z", "2025-03-03T00:00:00Z"},
			[]string{"from", "2025-02-24", "to", "2025-03-09", "interval", "week"}, map[string]int64{"2025-02-24": 1, "2025-03-03": 1}},
		{"months of the calendar", "UTC", []string{"2025-01-31T23:59:59Z", "2025-02-01T00:00:00Z"},
			[]string{"from", "2025-01-01", "to", "2025-02-28", "interval", "month"}, map[string]int64{"2025-01-01": 1, "2025-02-01": 1}},
		{"evening west of Greenwich", "America/New_York", []string{"2025-06-02T03:30:00Z"},
			[]string{"from", "2025-05-20", "to", "2025-06-10", "interval", "day"}, map[string]int64{"2025-06-01": 1}},
		{"gaps are bars", "UTC", []string{"2025-05-05T10:15:00Z", "2025-05-05T13:15:00Z"},
			[]string{"from", "2025-05-05T09:00:00Z", "to", "2025-05-05T15:00:00Z", "interval", "hour"},
			map[string]int64{"2025-05-05T10:00:00Z": 1, "2025-05-05T13:00:00Z": 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newTables(t)
			s.insert(viewsAt(test.views...)...)
			got := s.series(test.zone, test.ask...)
			if diff := cmp.Diff(test.want, bars(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if total := s.views(test.zone, test.ask[:4]...); total != sum(bars(got)) {
				t.Errorf("total %d, bars add up to %d", total, sum(bars(got)))
			}
		})
	}
}

func TestBarStartsAtLocalMidnight(t *testing.T) {
	s := newTables(t)
	s.insert(viewsAt("2025-07-09T16:31:00Z")...)
	got := s.series("Europe/Amsterdam", "from", "2025-07-09", "to", "2025-07-09", "interval", "day")
	if len(got.Results) != 1 || !at(got.Results[0].Start).Equal(at("2025-07-08T22:00:00Z")) || *got.Results[0].Views != 1 {
		t.Errorf("got %+v, want one bar from 2025-07-08T22:00:00Z with 1 view", got.Results)
	}
}

func TestLastDayIsInTheRange(t *testing.T) {
	s := newTables(t)
	s.insert(viewsAt("2025-03-31T23:59:59.999Z", "2025-04-01T00:00:00.000Z")...)
	if got := s.views("UTC", "from", "2025-03-01", "to", "2025-03-31"); got != 1 {
		t.Errorf("got %d, want 1", got)
	}
}

func TestLastSevenDaysAreComplete(t *testing.T) {
	s := newTables(t)
	s.now = at("2025-03-10T09:00:00Z")
	for day := 3; day <= 10; day++ {
		s.insert(viewsAt(time.Date(2025, 3, day, 8, 0, 0, 0, time.UTC).Format(time.RFC3339))...)
	}
	got := s.series("UTC", "period", "7d", "interval", "day")
	if len(got.Results) != 7 || got.Results[0].Date != "2025-03-03" || got.Results[6].Date != "2025-03-09" || sum(bars(got)) != 7 {
		t.Errorf("got %+v, want 3 to 9 March with 7 views", got.Results)
	}
}

func TestLast24HoursAndToday(t *testing.T) {
	s := newTables(t)
	s.now = at("2025-03-02T04:30:00Z")
	s.insert(viewsAt("2025-03-01T04:29:59Z", "2025-03-01T04:30:00Z", "2025-03-01T18:29:59Z", "2025-03-01T18:30:00Z")...)
	if got := s.views("Asia/Kolkata", "period", "24h"); got != 3 {
		t.Errorf("last 24 hours: got %d, want 3", got)
	}
	if got := s.views("Asia/Kolkata", "period", "day"); got != 1 {
		t.Errorf("today: got %d, want 1", got)
	}
}

// Visitors of a week are not the sum of its days' visitors.
func TestVisitorOfSeveralDaysIsOne(t *testing.T) {
	s := newTables(t)
	events := viewsAt("2025-03-03T10:00:00Z", "2025-03-03T11:00:00Z", "2025-03-04T10:00:00Z", "2025-03-04T11:00:00Z", "2025-03-05T10:00:00Z", "2025-03-05T11:00:00Z")
	for i := range events {
		events[i].Visitor = 77
	}
	s.insert(events...)
	got, err := s.store.Timeseries(context.Background(), s.request(Timeseries, "UTC", "from", "2025-03-03", "to", "2025-03-09", "interval", "week", "metrics", "views,visitors"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Results) != 1 || *got.Results[0].Views != 6 || *got.Results[0].Visitors != 1 {
		t.Errorf("got %+v, want one week of 6 views and 1 visitor", got.Results)
	}
}

// Headline, bars and every breakdown of one screen follow the same clock.
func TestBreakdownsAgree(t *testing.T) {
	s := newTables(t)
	events := viewsAt("2025-01-13T23:30:00Z", "2025-01-14T22:59:59Z", "2025-01-14T23:00:00Z")
	for i, page := range []struct{ path, browser string }{{"/a", "Firefox"}, {"/b", "Chrome"}, {"/c", "Chrome"}} {
		events[i].Path, events[i].PathKey, events[i].Browser = page.path, page.path, page.browser
	}
	s.insert(events...)
	day := []string{"from", "2025-01-14", "to", "2025-01-14"}
	if diff := cmp.Diff(map[string]int64{"/a": 1, "/b": 1}, s.top("Europe/Paris", append(day, "dimension", "path")...)); diff != "" {
		t.Errorf("pages (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"Firefox": 1, "Chrome": 1}, s.top("Europe/Paris", append(day, "dimension", "browser")...)); diff != "" {
		t.Errorf("browsers (-want +got)\n%s", diff)
	}
	for _, period := range [][]string{day, {"from", "2025-01-13", "to", "2025-01-19"}, {"from", "2025-01-01", "to", "2025-01-31"}} {
		headline := s.views("Europe/Paris", period...)
		if pages := sum(s.top("Europe/Paris", append(period, "dimension", "path")...)); pages != headline {
			t.Errorf("%v: headline %d, pages %d", period, headline, pages)
		}
		for _, interval := range []string{"hour", "day", "week", "month"} {
			if got := sum(bars(s.series("Europe/Paris", append(period, "interval", interval)...))); got != headline {
				t.Errorf("%v: headline %d, %s bars %d", period, headline, interval, got)
			}
		}
	}
}

func TestSameDatesAYearBefore(t *testing.T) {
	s := newTables(t)
	s.insert(viewsAt("2024-01-01T00:00:00Z", "2024-01-02T12:00:00Z", "2024-01-08T00:00:00Z", "2025-01-07T23:00:00Z")...)
	r := s.request(Totals, "UTC", "from", "2025-01-01", "to", "2025-01-07", "compare", "year")
	got, err := s.store.Totals(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	if v := got.Results[Views]; v.Value != int64(1) || v.Previous == nil || *v.Previous != int64(2) {
		t.Errorf("views %+v, want 1 and 2 before", v)
	}
	want := &RangeMeta{From: "2024-01-01T00:00:00Z", To: "2024-01-08T00:00:00Z", TZ: "UTC"}
	if diff := cmp.Diff(want, got.Meta.Compared); diff != "" {
		t.Errorf("compared (-want +got)\n%s", diff)
	}
}

// No bar lies in the future, the current one is marked, and bars still add up when an event's clock is ahead.
func TestNoBarStartsAfterNow(t *testing.T) {
	s := newTables(t)
	s.now = at("2025-06-11T11:58:00Z")
	s.insert(viewsAt("2025-06-11T08:00:00Z", "2025-06-11T11:30:00Z", "2025-06-11T12:01:00Z")...)
	got := s.series("UTC", "period", "day", "interval", "hour")
	if len(got.Results) != 12 {
		t.Fatalf("%d bars, want 12", len(got.Results))
	}
	last := got.Results[11]
	if last.Date != "2025-06-11T11:00:00Z" || !last.Partial || *last.Views != 2 || got.Results[10].Partial {
		t.Errorf("last bar %+v, want 11:00, partial, 2 views", last)
	}
	if total := s.views("UTC", "period", "day"); total != sum(bars(got)) {
		t.Errorf("total %d, bars %d", total, sum(bars(got)))
	}
}

func sum(m map[string]int64) (n int64) {
	for _, v := range m {
		n += v
	}
	return n
}

func mustZone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}
