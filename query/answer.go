package query

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Count answers one row for a page or a site.
func (s *Store) Count(ctx context.Context, r Request) (CountResult, error) {
	asOf := s.asOf()
	f, err := s.figures(ctx, &r)
	if err != nil {
		return CountResult{}, err
	}
	return CountResult{Site: r.Site, Path: r.Path, Name: r.Name, Figures: f, Meta: metaOf(&r, asOf, visitorsIn(f))}, nil
}

// Totals answers each metric, beside that of the compared range when r names one.
func (s *Store) Totals(ctx context.Context, r Request) (TotalsResult, error) {
	asOf := s.asOf()
	f, err := s.figures(ctx, &r)
	if err != nil {
		return TotalsResult{}, err
	}
	result := TotalsResult{Results: make(map[Metric]Total, len(r.Metrics))}
	for _, m := range r.Metrics {
		value, _ := f.Get(m)
		result.Results[m] = Total{Value: value}
	}
	sketched := visitorsIn(f)
	if r.Compare == "" {
		result.Meta = metaOf(&r, asOf, sketched)
		return result, nil
	}
	before := r
	before.Range = r.Range.compared(r.Compare)
	previous, err := s.figures(ctx, &before)
	if err != nil {
		return TotalsResult{}, err
	}
	for _, m := range r.Metrics {
		value, _ := previous.Get(m)
		result.Results[m] = Total{Value: result.Results[m].Value, Previous: &value}
	}
	result.Meta = metaOf(&r, asOf, max(sketched, visitorsIn(previous)))
	compared := rangeMeta(before.Range)
	result.Meta.Compared = &compared
	return result, nil
}

// Timeseries answers a bar for every interval that has begun. Without an interval in r one that suits the range is taken.
func (s *Store) Timeseries(ctx context.Context, r Request) (TimeseriesResult, error) {
	asOf := s.asOf()
	if err := s.resolve(ctx, &r); err != nil {
		return TimeseriesResult{}, err
	}
	if r.Interval == "" {
		r.Interval = defaultInterval(r.Range.From, r.Range.To)
	}
	if err := checkBars(r.Interval, r.Range); err != nil {
		return TimeseriesResult{}, err
	}
	p := planOf(&r)
	byEdge := make(map[uint32]*Figures, len(p.bars))
	result := TimeseriesResult{Results: make([]SeriesBar, len(p.bars)), Interval: r.Interval}
	for i, bar := range p.bars {
		result.Results[i] = seriesBar(&r, bar)
		byEdge[uint32(p.edges[i])] = &result.Results[i].Figures
	}
	sketched, err := s.fillBars(ctx, &r, &p, byEdge)
	if err != nil {
		return TimeseriesResult{}, err
	}
	result.Meta = metaOf(&r, asOf, sketched)
	return result, nil
}

func seriesBar(r *Request, bar Bar) SeriesBar {
	cut := bar.Start.Before(r.Range.From) || bar.End.After(r.Range.To)
	return SeriesBar{
		Date: r.Interval.label(bar.Start), Start: formatTime(bar.Start), End: formatTime(bar.End),
		Figures: zeroFigures(r.Metrics),
		Partial: cut || bar.End.After(r.Now),
	}
}

// fillBars returns the greatest number of visitors in a bar.
func (s *Store) fillBars(ctx context.Context, r *Request, p *plan, byEdge map[uint32]*Figures) (sketched int64, err error) {
	if len(p.bars) == 0 {
		return 0, nil
	}
	if p.counts != "" {
		err := s.each(ctx, countsSQL(r, p), func(rows driver.Rows) error {
			var start uint32
			var views, events int64
			if err := rows.Scan(&start, &views, &events); err != nil {
				return err
			}
			setCounts(byEdge[start], r, views, events)
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	if p.visitors == "" {
		return 0, nil
	}
	return sketched, s.each(ctx, visitorsSQL(r, p, nil), func(rows driver.Rows) error {
		var start uint32
		var visitors uint64
		if err := rows.Scan(&start, &visitors); err != nil {
			return err
		}
		byEdge[start].set(Visitors, int64(visitors))
		sketched = max(sketched, int64(visitors))
		return nil
	})
}

// Top answers the values of r.Dimension with the greatest counts: found by counts first, then visitors merged for those alone.
func (s *Store) Top(ctx context.Context, r Request) (TopResult, error) {
	asOf := s.asOf()
	if err := s.resolve(ctx, &r); err != nil {
		return TopResult{}, err
	}
	p := planOf(&r)
	list := topList{r: &r, at: map[string]int{}, result: TopResult{Results: []TopRow{}}}
	if p.counts != "" {
		if err := s.each(ctx, countsSQL(&r, &p), list.scanCounts); err != nil {
			return TopResult{}, err
		}
	}
	if p.visitors != "" && (r.rank() == Visitors || len(list.values) > 0) {
		if err := s.each(ctx, visitorsSQL(&r, &p, list.values), list.scanVisitors); err != nil {
			return TopResult{}, err
		}
	}
	list.result.Meta = metaOf(&r, asOf, list.sketched)
	return list.result, nil
}

// topList collects the rows of a top list by their stored values.
type topList struct {
	r        *Request
	values   []string
	at       map[string]int
	sketched int64
	result   TopResult
}

func (l *topList) row(value string) *Figures {
	i, ok := l.at[value]
	if !ok {
		i = len(l.values)
		l.at[value] = i
		l.values = append(l.values, value)
		l.result.Results = append(l.result.Results, TopRow{
			Dimension: l.r.Dimension, Value: valueLabel(l.r.Dimension, value), Figures: zeroFigures(l.r.Metrics),
		})
	}
	return &l.result.Results[i].Figures
}

func (l *topList) scanCounts(rows driver.Rows) error {
	var value string
	var views, events int64
	if err := rows.Scan(&value, &views, &events); err != nil {
		return err
	}
	setCounts(l.row(value), l.r, views, events)
	return nil
}

func (l *topList) scanVisitors(rows driver.Rows) error {
	var value string
	var visitors uint64
	if err := rows.Scan(&value, &visitors); err != nil {
		return err
	}
	l.row(value).set(Visitors, int64(visitors))
	l.sketched = max(l.sketched, int64(visitors))
	return nil
}

// figures answers r's metrics as one row.
func (s *Store) figures(ctx context.Context, r *Request) (Figures, error) {
	f := zeroFigures(r.Metrics)
	if err := s.resolve(ctx, r); err != nil {
		return f, err
	}
	p := planOf(r)
	if p.counts != "" {
		err := s.each(ctx, countsSQL(r, &p), func(rows driver.Rows) error {
			var views, events int64
			if err := rows.Scan(&views, &events); err != nil {
				return err
			}
			setCounts(&f, r, views, events)
			return nil
		})
		if err != nil {
			return f, err
		}
	}
	if p.visitors == "" {
		return f, nil
	}
	return f, s.each(ctx, visitorsSQL(r, &p, nil), func(rows driver.Rows) error {
		var visitors uint64
		if err := rows.Scan(&visitors); err != nil {
			return err
		}
		f.set(Visitors, int64(visitors))
		return nil
	})
}

func setCounts(f *Figures, r *Request, views, events int64) {
	if r.asks(Views) {
		f.set(Views, views)
	}
	if r.asks(Events) {
		f.set(Events, events)
	}
}

func visitorsIn(f Figures) int64 {
	v, _ := f.Get(Visitors)
	return v
}

// resolve gives a range over all there is its ends.
func (s *Store) resolve(ctx context.Context, r *Request) error {
	if !r.Range.All || !r.Range.From.IsZero() {
		return nil
	}
	first := r.Now
	err := s.each(ctx, extentSQL(r.Site), func(rows driver.Rows) error {
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
