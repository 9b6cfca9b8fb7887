package schema

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// visitsOf cuts events into visits as the SQL should: lines of visitor, start, duration, views, events, bounced, entry, exit, source.
func visitsOf(events []Event) []string {
	events = slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return e.Name == Engagement || e.Visitor == 0 || e.N <= 0 })
	slices.SortStableFunc(events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.Visitor, b.Visitor), cmp.Compare(a.TS, b.TS), cmp.Compare(a.ReceivedAt, b.ReceivedAt),
			cmp.Compare(a.PathKey, b.PathKey), cmp.Compare(a.Name, b.Name), cmp.Compare(a.N, b.N))
	})
	const dayMS = 24 * 60 * 60 * 1000
	var lines []string
	for len(events) > 0 {
		size := 1
		for size < len(events) && events[size].Visitor == events[0].Visitor && events[size].TS/dayMS == events[0].TS/dayMS &&
			events[size].TS-events[size-1].TS < VisitGap.Milliseconds() {
			size++
		}
		visit := events[:size]
		events = events[size:]
		var views, all, actions int64
		entry, exit := "", ""
		for _, e := range visit {
			all += e.N
			if e.Flags&FlagNonInteractive == 0 {
				actions += e.N
			}
			if e.Name == PageView {
				if views += e.N; entry == "" {
					entry = e.PathKey
				}
				exit = e.PathKey
			}
		}
		bounced := 0
		if actions <= 1 {
			bounced = 1
		}
		lines = append(lines, fmt.Sprintf("%d,%d,%d,%d,%d,%d,'%s','%s','%s'",
			visit[0].Visitor, visit[0].TS, visit[size-1].TS-visit[0].TS, views, all, bounced, entry, exit, visit[0].Source))
	}
	slices.Sort(lines)
	return lines
}

func TestVisits(t *testing.T) {
	conn := migratedDatabase(t)
	random := rand.New(rand.NewPCG(1, 2))
	var events []Event
	for i := range 3000 {
		e := sample(i)
		e.Site, e.Visitor = "a.example", uint64(random.IntN(40))         // 0 among them
		e.TS = noon + random.Int64N(20*60*60*1000)/(1+random.Int64N(20)) // over midnight, and close together
		e.Source = fmt.Sprintf("s%d", random.IntN(5))
		switch random.IntN(6) {
		case 0:
			e.Name = "Signup"
		case 1:
			e.Name = Engagement
		case 2:
			e.N = random.Int64N(7) - 3
		case 3:
			e.Flags = FlagNonInteractive
		}
		if e.N == 0 {
			e.N = 2
		}
		events = append(events, e)
	}
	// What decides where visits are cut: the pause, and midnight.
	for i, at := range []int64{0, 1_799_999, 1_800_000, 3_599_999, 12*3_600_000 - 1, 12 * 3_600_000} {
		e := sample(i)
		e.Site, e.Visitor, e.TS, e.N = "a.example", 1000+uint64(i/2), noon+at, 1
		events = append(events, e)
	}
	random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	for i := 0; i < len(events); i += 1000 {
		insert(t, conn, fmt.Sprintf("token-%d", i), events[i:min(i+1000, len(events))])
	}

	query := VisitsQuery("(SELECT * FROM events WHERE site = 'a.example' AND "+InVisits+")", "toDate(ts)")
	got := ask(t, conn, "SELECT visitor, visit, duration_ms, views, events, bounced, entry_path, exit_path, source FROM ("+query+")")
	slices.Sort(got)
	if diff := gocmp.Diff(visitsOf(events), got); diff != "" {
		t.Errorf("visits (-want +got):\n%s", diff)
	}
	if len(got) < 100 {
		t.Errorf("%d visits: the events show nothing", len(got))
	}
}
