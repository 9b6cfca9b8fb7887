package query

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Count answers one row for a page or a site.
func (s *Store) Count(ctx context.Context, r Request) (CountResult, error) {
	asOf := s.asOf()
	g, err := s.total(ctx, &r)
	if err != nil {
		return CountResult{}, err
	}
	return CountResult{Site: r.Site, Path: r.Path, Name: r.Name, Figures: g.alone().figures(r.Metrics), Meta: metaOf(g, asOf)}, nil
}

// Totals answers each metric, beside that of the compared range when r names one.
func (s *Store) Totals(ctx context.Context, r Request) (TotalsResult, error) {
	asOf := s.asOf()
	g, err := s.total(ctx, &r)
	if err != nil {
		return TotalsResult{}, err
	}
	result := TotalsResult{Results: make(map[Metric]Total, len(r.Metrics)), Meta: metaOf(g, asOf)}
	figures := g.alone().figures(r.Metrics)
	for _, m := range r.Metrics {
		result.Results[m] = Total{Value: figures.Value(m)}
	}
	if r.Compare == "" {
		return result, nil
	}
	before := r
	before.Range = r.Range.compared(r.Compare)
	previous, err := s.total(ctx, &before)
	if err != nil {
		return TotalsResult{}, err
	}
	figures = previous.alone().figures(r.Metrics)
	for _, m := range r.Metrics {
		value := figures.Value(m)
		result.Results[m] = Total{Value: result.Results[m].Value, Previous: &value}
	}
	result.Meta.comparedWith(previous)
	return result, nil
}

// total answers r's metrics as one row.
func (s *Store) total(ctx context.Context, r *Request) (*groups, error) {
	if err := s.resolve(ctx, r); err != nil {
		return nil, err
	}
	return s.groupsOf(ctx, r)
}

// Timeseries answers a bar for every interval that has begun. Without an interval in r one that suits the range is taken. Bars of a
// compared range stand beside them one by one, the first beside the first.
func (s *Store) Timeseries(ctx context.Context, r Request) (TimeseriesResult, error) {
	asOf := s.asOf()
	g, err := s.series(ctx, &r)
	if err != nil {
		return TimeseriesResult{}, err
	}
	result := TimeseriesResult{Results: g.seriesBars(), Interval: r.Interval, Meta: metaOf(g, asOf)}
	if r.Compare == "" {
		return result, nil
	}
	before := r
	before.Range = r.Range.compared(r.Compare)
	previous, err := s.series(ctx, &before)
	if err != nil {
		return TimeseriesResult{}, err
	}
	bars := previous.seriesBars()
	for i := range min(len(bars), len(result.Results)) {
		result.Results[i].Previous = &PreviousBar{Date: bars[i].Date, Figures: bars[i].Figures}
	}
	result.Meta.comparedWith(previous)
	return result, nil
}

func (s *Store) series(ctx context.Context, r *Request) (*groups, error) {
	if err := s.resolve(ctx, r); err != nil {
		return nil, err
	}
	if r.Interval == "" {
		r.Interval = defaultInterval(r.Range.From, r.Range.To)
	}
	if err := checkBars(r.Interval, r.Range); err != nil {
		return nil, err
	}
	return s.groupsOf(ctx, r)
}

// seriesBars has every bar of the plan, those without events, too.
func (g *groups) seriesBars() []SeriesBar {
	r := g.r
	bars := make([]SeriesBar, len(g.plan.bars))
	for i, bar := range g.plan.bars {
		cut := bar.Start.Before(r.Range.From) || bar.End.After(r.Range.To)
		bars[i] = SeriesBar{
			Date: r.Interval.label(bar.Start), Start: formatTime(bar.Start), End: formatTime(bar.End),
			Figures: g.at(uint32(g.plan.edges[i]), nil, true).figures(r.Metrics),
			Partial: cut || bar.End.After(r.Now),
		}
	}
	return bars
}

// Top answers the values of r.Dimensions with the greatest counts.
func (s *Store) Top(ctx context.Context, r Request) (TopResult, error) {
	asOf := s.asOf()
	g, err := s.total(ctx, &r)
	if err != nil {
		return TopResult{}, err
	}
	result := TopResult{Results: make([]TopRow, len(g.rows)), Meta: metaOf(g, asOf)}
	for i, row := range g.rows {
		result.Results[i] = TopRow{Dimensions: r.Dimensions, Values: row.labels(r.Dimensions), Figures: row.figures(r.Metrics)}
	}
	result.Meta.TotalRows = &g.total
	return result, nil
}

// labels are the values as shown.
func (g *group) labels(dimensions []string) []string {
	labels := make([]string, len(g.values))
	for i, value := range g.values {
		labels[i] = valueLabel(dimensions[i], value)
	}
	return labels
}

// resolve gives a range over all there is its ends.
func (s *Store) resolve(ctx context.Context, r *Request) error {
	if !r.Range.All || !r.Range.From.IsZero() {
		return nil
	}
	first := r.Now
	err := s.ask(ctx, r, extentSQL(r.Site), func(rows driver.Rows) error {
		var found uint64
		var unix int64
		if err := rows.Scan(&found, &unix); err != nil {
			return err
		}
		if found > 0 {
			first = time.Unix(unix, 0)
		}
		return nil
	})
	r.Range = allOf(first, r.Now, r.Range.Loc)
	return err
}
