package schema

import (
	"fmt"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// BenchmarkInsert compares the inbox and all behind it with a plain insert of the same rows into a copy of events, in blocks of
// 50,000 rows as a busy site sends them. The targets alone show what each costs on top of sending the block (the null table).
func BenchmarkInsert(b *testing.B) {
	const rows = 50_000
	conn := migratedDatabase(b)
	events := traffic(rows)
	exec(b, conn, "CREATE TABLE bare AS events")
	exec(b, conn, "CREATE TABLE nothing AS inbox ENGINE = Null")
	bare := ToEvents
	bare.table = "bare"
	nothing := ToInbox
	nothing.table = "nothing"
	destinations := []struct {
		name string
		to   Destination
	}{{"null", nothing}, {"bare", bare}, {"inbox", ToInbox}}
	for _, target := range Targets() {
		to := ToInbox
		to.table = "inbox_" + target.Table
		exec(b, conn, "CREATE TABLE "+to.table+" AS inbox ENGINE = Null")
		query, err := FeedQuery(target.Table, to.table)
		if err != nil {
			b.Fatal(err)
		}
		exec(b, conn, "CREATE MATERIALIZED VIEW only_"+target.Table+" TO "+target.Table+" AS "+query)
		destinations = append(destinations, struct {
			name string
			to   Destination
		}{"only " + target.Table, to})
	}
	batch := 0
	for _, d := range destinations {
		b.Run(d.name, func(b *testing.B) {
			var r Rows
			for b.Loop() {
				batch++
				insertTimed(b, conn, d.to, &r, events, fmt.Sprintf("batch-%d", batch))
			}
			b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// insertTimed measures what a delivery does with decoded rows: building the block, sending it, waiting for the answer.
func insertTimed(b *testing.B, conn driver.Conn, to Destination, r *Rows, events []Event, token string) {
	b.StopTimer()
	for i := range events {
		r.Append(&events[i], token, fmt.Sprintf("SEGMENT:%d", i))
	}
	b.StartTimer()
	ctx := clickhouse.Context(b.Context(), clickhouse.WithSettings(InsertSettings(token)))
	block, err := to.Prepare(ctx, conn)
	if err != nil {
		b.Fatal(err)
	}
	if err := r.AppendTo(block, to); err != nil {
		b.Fatal(err)
	}
	if err := block.Send(); err != nil {
		b.Fatal(err)
	}
}

// traffic is page views with the variety of real ones: a few sites, pages by popularity, most of the rest from short lists.
func traffic(n int) []Event {
	events := samples(n)
	for i := range events {
		e := &events[i]
		r := uint64(i) * 0x9e3779b97f4a7c15 >> 20 // spread, and the same in every run
		page := (r % 71) * (r / 71 % 71)
		e.Path = fmt.Sprintf("/blog/%d", page)
		e.PathKey, e.Title = e.Path, fmt.Sprintf("All about %d", page)
		e.Referrer, e.Source = "", ""
		if r%3 == 0 {
			e.Referrer, e.Source = fmt.Sprintf("https://ref%d.example/x", r%200), fmt.Sprintf("ref%d.example", r%200)
		}
		e.Country, e.Region, e.City = fmt.Sprintf("C%d", r%30), fmt.Sprintf("R%d", r%200), fmt.Sprintf("City %d", r%500)
		e.Browser, e.BrowserVersion = fmt.Sprintf("Browser %d", r%6), fmt.Sprint(r%40)
		e.OS, e.OSVersion = fmt.Sprintf("OS %d", r%5), fmt.Sprint(r%20)
		e.Screen, e.Language = fmt.Sprintf("%dx%d", r%40, r%20), fmt.Sprintf("l%d", r%25)
		e.Visitor = r%uint64(max(n/3, 1)) + 1
	}
	return events
}
