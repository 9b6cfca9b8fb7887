package query

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// sparks are the bars of a sparkline, the lowest first.
var sparks = []rune("▁▂▃▄▅▆▇█")

// sparkline draws numbers as bars from zero to the greatest; what is below zero is drawn as zero.
func sparkline(numbers []int64) string {
	var most int64
	for _, n := range numbers {
		most = max(most, n)
	}
	line := make([]rune, len(numbers))
	for i, n := range numbers {
		line[i] = sparks[0]
		if n > 0 {
			line[i] = sparks[int(float64(n)/float64(most)*float64(len(sparks)-1)+.5)]
		}
	}
	return string(line)
}

// sparkWidth is the greatest number of bars of a sparkline: of a longer series the end is drawn.
const sparkWidth = 100

// Spark draws the first count that was asked for, "" when there is none.
func (r TimeseriesResult) Spark() string {
	bars := r.Results[max(0, len(r.Results)-sparkWidth):]
	numbers := make([]int64, len(bars))
	for _, m := range metrics {
		if len(bars) == 0 || m.isRate() {
			continue
		}
		if _, asked := bars[0].Get(m); !asked {
			continue
		}
		for i, bar := range bars {
			numbers[i], _ = bar.Get(m)
		}
		return sparkline(numbers) + " " + string(m)
	}
	return ""
}

// Spark draws the views of the last hour.
func (r RealtimeResult) Spark() string {
	numbers := make([]int64, len(r.Minutes))
	for i, bar := range r.Minutes {
		numbers[i] = bar.Views
	}
	return sparkline(numbers) + " views of the last hour by the minute"
}

// WriteTable prints what happens now: the last minutes, and what is looked at.
func (r RealtimeResult) WriteTable(w io.Writer) error {
	t := newTable(w, []string{"", "last 5 minutes", "last 30 minutes"})
	for _, row := range []struct {
		name string
		SpanFigures
	}{{"visitors", r.Visitors}, {"views", r.Views}} {
		t.row([]string{row.name, strconv.FormatInt(row.Last5, 10), strconv.FormatInt(row.Last30, 10)})
	}
	for _, list := range r.lists() {
		for i, row := range list.rows {
			if i == 0 {
				t.row([]string{})
				t.row([]string{list.name, "views"})
			}
			t.row([]string{valueLabel(list.name, row.Value), strconv.FormatInt(row.Views, 10)})
		}
	}
	if err := t.w.Flush(); t.err == nil {
		t.err = err
	}
	if t.err != nil {
		return t.err
	}
	_, err := fmt.Fprintf(w, "\nas of %s, %s\n", r.Meta.AsOf, strings.TrimSuffix("from the tables; "+r.Meta.Reason, "; "))
	return err
}

type nowList struct {
	name string
	rows []NowRow
}

func (r RealtimeResult) lists() []nowList {
	return []nowList{{"path", r.Pages}, {"source", r.Sources}, {"country", r.Countries}}
}

// WriteCSV writes one row a minute.
func (r RealtimeResult) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	writeRow(c, []string{"start", "views"})
	for _, bar := range r.Minutes {
		writeRow(c, []string{bar.Start, strconv.FormatInt(bar.Views, 10)})
	}
	return finish(c)
}
