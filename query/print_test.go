package query

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTablesForPeople(t *testing.T) {
	one, many := int64(1), int64(12345)
	before, none := any(one), any(nil)
	meta := Meta{AsOf: "2025-05-06T00:00:00Z", Range: RangeMeta{"2025-05-05T00:00:00Z", "2025-05-06T00:00:00Z", "UTC"}}
	approximate := meta
	approximate.ErrorBound = map[Metric]float64{Visitors: 0.009}
	compared := meta
	compared.Compared = &RangeMeta{}
	const foot = "\n2025-05-05T00:00:00Z to 2025-05-06T00:00:00Z (UTC), as of 2025-05-06T00:00:00Z\n"
	tests := []struct {
		name  string
		print interface{ WriteTable(io.Writer) error }
		want  string
	}{
		{"count", CountResult{Site: "example.com", Figures: Figures{Views: &many, Visitors: &one}, Meta: approximate},
			"site         path         views  visitors\nexample.com  (all pages)  12345  1\n" + foot + "visitors are approximate, within 0.9 %\n"},
		{"totals", TotalsResult{Results: map[Metric]Total{Views: {Value: many, Previous: &before}, BounceRate: {Value: 33.33, Previous: &none}}, Meta: compared},
			"metric       value  before\nviews        12345  1\nbounce_rate  33.33  -\n" + foot},
		{"series", TimeseriesResult{Interval: Day, Results: []SeriesBar{{Date: "2025-05-05", Figures: Figures{Views: &one}, Partial: true}}, Meta: meta},
			"day         views  \n2025-05-05  1      partial\n" + foot},
		{"top", TopResult{Results: []TopRow{{[]string{"path", "country"}, []string{"/a\tb\n\x1b[2J", "DE"}, Figures{Views: &one, TimeOnPage: &Rate{Value: 1.5, Valid: true}}}}, Meta: meta},
			"path       country  views  time_on_page\n/a�b��[2J  DE       1      1.5\n" + foot},
		{"realtime", RealtimeResult{
			Visitors: SpanFigures{1, 2}, Views: SpanFigures{3, 12}, Pages: []NowRow{{"/a", 3}}, Sources: []NowRow{{"", 2}, {"x\n", 1}}, Meta: RealtimeMeta{AsOf: "now"},
		}, "          last 5 minutes  last 30 minutes\nvisitors  1               2\nviews     3               12\n\npath  views\n/a    3\n\nsource         views\nDirect / None  2\nx�             1\n\nas of now, from the tables\n"},
		{"nothing", TopResult{Meta: meta}, "nothing counted\n" + foot},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var b bytes.Buffer
			if err := test.print.WriteTable(&b); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, b.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestSparklines(t *testing.T) {
	series := TimeseriesResult{}
	for i := range int64(sparkWidth + 3) {
		n := (i - 3) % 8
		rate := Rate{Value: 7, Valid: true}
		series.Results = append(series.Results, SeriesBar{Figures: Figures{Visitors: &n, BounceRate: &rate}})
	}
	if got := series.Spark(); !strings.HasPrefix(got, "▁▂▃▄▅▆▇█▁▂") || !strings.HasSuffix(got, "▁▂▃▄ visitors") || strings.Count(got, "█") != 12 {
		t.Errorf("got %s", got)
	}
	if got := sparkline([]int64{-5, 0, 0}); got != "▁▁▁" {
		t.Errorf("of nothing: %s", got)
	}
	if got := (TimeseriesResult{}).Spark(); got != "" {
		t.Errorf("of no bars: %s", got)
	}
}
