package schema

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFeedQueryFillsWhatTheViewFilled(t *testing.T) {
	conn := migratedDatabase(t)
	insert(t, conn, "batch", samples(1000))
	want := sums(t, conn)
	for _, target := range []string{"views", "visitors", "dimensions"} {
		exec(t, conn, "TRUNCATE TABLE "+target)
		query, err := FeedQuery(target, "(SELECT * FROM events WHERE batch = 'batch')")
		if err != nil {
			t.Fatal(err)
		}
		exec(t, conn, "INSERT INTO "+target+" "+query)
	}
	if diff := cmp.Diff(want, sums(t, conn)); diff != "" {
		t.Errorf("refilled from events (-want +got):\n%s", diff)
	}
	if _, err := FeedQuery("ledger", "events"); err == nil {
		t.Error("ledger: got a query, want an error")
	}
}

func TestFeedColumnsAreTheTargets(t *testing.T) {
	conn := migratedDatabase(t)
	for _, target := range Targets() {
		columns := func(table string) []string {
			return ask(t, conn, "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = '"+table+"' ORDER BY position")
		}
		if diff := cmp.Diff(columns(target.Table), columns(target.View)); diff != "" {
			t.Errorf("%s gives other columns than %s takes (-want +got):\n%s", target.View, target.Table, diff)
		}
	}
}

func TestDimensionsAreThoseOfTheView(t *testing.T) {
	query, err := FeedQuery("dimensions", Inbox)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, match := range regexp.MustCompile(`grouping\((\w+)\) = 0, '(\w+)'`).FindAllStringSubmatch(query, -1) {
		got = append(got, match[2])
		if want := DimensionColumn(match[2]); match[1] != want {
			t.Errorf("%s: the view reads %s, DimensionColumn says %q", match[2], match[1], want)
		}
	}
	if diff := cmp.Diff(Dimensions(), got); diff != "" {
		t.Errorf("the view's dimensions (-want +got):\n%s", diff)
	}
	if got := DimensionColumn("visitor"); got != "" {
		t.Errorf("visitor is no dimension, got column %q", got)
	}
}
