//go:build linux

package main

import (
	"strings"
	"testing"
)

func TestBooks(t *testing.T) {
	all := func(n int64) totals { return totals{n, n, n, n} }
	tests := []struct {
		name        string
		l           load
		now         totals
		lost, extra int64
	}{
		{"exact", load{Acknowledged: 10}, all(110), 0, 0},
		{"lost everywhere", load{Acknowledged: 10}, all(108), 2, 0},
		{"lost in one table", load{Acknowledged: 10}, totals{110, 110, 107, 110}, 3, 0},
		{"counted twice", load{Acknowledged: 10}, totals{110, 111, 110, 110}, 0, 1},
		{"unanswered, counted", load{Acknowledged: 10, Unanswered: 1}, all(111), 0, 0},
		{"unanswered, not counted", load{Acknowledged: 10, Unanswered: 1}, all(110), 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var row throughputRow
			newBooks(all(100)).check(&row, &tt.l, tt.now)
			if row.Lost != tt.lost || row.Extra != tt.extra {
				t.Errorf("lost %d, extra %d, want %d and %d", row.Lost, row.Extra, tt.lost, tt.extra)
			}
			r := result{Throughput: []throughputRow{row}}
			if err := r.check(); (err != nil) != (tt.lost+tt.extra > 0) {
				t.Errorf("check: %v", err)
			}
		})
	}
}

func TestTable(t *testing.T) {
	r := result{
		Throughput: []throughputRow{{Connections: 512, Bare: 100_000, Pagetally: 61_000, Ratio: 0.61}},
		Memory:     memoryRow{Pagetally: 151e6},
		Visibility: &visibilityRow{P99: 1.5},
		Delivery:   &deliveryRow{Events: 1000, PerSecond: 60, RawPerSecond: 100},
	}
	var out strings.Builder
	if err := r.writeTable(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"61000", "0.61", "151 MB", "0.60 of a raw insert's 100"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if got := strings.Count(out.String(), "reached"); got != 2 {
		t.Errorf("%d aims reached, want 2:\n%s", got, &out)
	}
}
