package query

// sums are what statements read of a group; metrics are made of them.
type sums struct {
	views, events                           int64
	visitors                                int64
	candidates                              int64 // visitors with or without a conversion
	visits, bounces, durationMS, visitViews int64
	engagedMS, engaged, scroll, scrolled    int64
}

// columns of a family, in the order of its statement's.
func (s *sums) columns(f family) []*int64 {
	switch f {
	case counts:
		return []*int64{&s.views, &s.events}
	case visitors:
		return []*int64{&s.visitors}
	case visits:
		return []*int64{&s.visits, &s.bounces, &s.durationMS, &s.visitViews}
	default:
		return []*int64{&s.engagedMS, &s.engaged, &s.scroll, &s.scrolled}
	}
}

// take adopts a family's columns.
func (s *sums) take(f family, from *sums) {
	to := s.columns(f)
	for i, column := range from.columns(f) {
		*to[i] = *column
	}
}

// figures are the values of metrics.
func (s *sums) figures(asked []Metric) Figures {
	var f Figures
	for _, m := range asked {
		if m.isRate() {
			f.setRate(m, s.rate(m))
		} else {
			f.set(m, s.count(m))
		}
	}
	return f
}

func (s *sums) count(m Metric) int64 {
	switch m {
	case Views:
		return s.views
	case Events:
		return s.events
	case Visitors:
		return s.visitors
	default:
		return s.visits
	}
}

func (s *sums) rate(m Metric) Rate {
	const percent, second = 100, 1000
	switch m {
	case ViewsPerVisit:
		return rateOf(float64(s.visitViews), float64(s.visits))
	case BounceRate:
		return rateOf(percent*float64(s.bounces), float64(s.visits))
	case VisitDuration:
		return rateOf(float64(s.durationMS)/second, float64(s.visits))
	case TimeOnPage:
		return rateOf(float64(s.engagedMS)/second, float64(s.engaged))
	case ScrollDepth:
		return rateOf(float64(s.scroll), float64(s.scrolled))
	default:
		return rateOf(percent*float64(s.visitors), float64(s.candidates))
	}
}

// number orders by a metric; a rate of nothing is the least.
func (s *sums) number(m Metric) float64 {
	if !m.isRate() {
		return float64(s.count(m))
	}
	if r := s.rate(m); r.Valid {
		return r.Value
	}
	return -1
}

// noFigures are those of nothing.
func noFigures(asked []Metric) Figures { return new(sums).figures(asked) }
