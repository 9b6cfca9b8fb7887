package query

import (
	"cmp"
	"slices"
)

// order is how the rows of r come: as asked, else by time and then by rank, the greatest first.
func (r *Request) order() []OrderBy {
	if len(r.Order) > 0 {
		return r.Order
	}
	var order []OrderBy
	if r.byTime() {
		order = append(order, OrderBy{By: OrderByTime})
	}
	if len(r.Dimensions) > 0 {
		order = append(order, OrderBy{By: string(r.rank()), Desc: true})
	}
	return order
}

// rank is the metric that orders a list, when nothing else was asked for: counts go first, because merging visitors of every value
// costs most.
func (r *Request) rank() Metric {
	if r.asks(Views) || r.asks(Events) {
		return r.countOf()
	}
	for _, m := range r.Metrics {
		if m == Visitors || slices.Contains(ofVisitMetrics, m) {
			return m
		}
	}
	return r.Metrics[0]
}

// countOf is the metric that says how much of something was counted, of those in the family of counts.
func (r *Request) countOf() Metric {
	if r.asks(Events) && (!r.asks(Views) || slices.Contains(r.Dimensions, dimName)) {
		return Events
	}
	return Views
}

// lists says that there is something to rank a row by.
func (r *Request) lists(s *sums) bool {
	switch familyOf(r.rank()) {
	case counts:
		return s.count(r.countOf()) != 0
	case visits:
		return s.visits != 0
	case pings:
		return s.engaged != 0 || s.scrolled != 0
	default:
		return s.visitors != 0
	}
}

// families are those that r's metrics belong to. The first knows the order of rows.
func (r *Request) families() []family {
	var list []family
	add := func(m Metric) {
		if f := familyOf(m); r.asks(m) && !slices.Contains(list, f) {
			list = append(list, f)
		}
	}
	for _, o := range r.order() {
		add(Metric(o.By))
	}
	for _, m := range []Metric{Views, Events} {
		add(m)
	}
	for _, m := range r.Metrics {
		add(m)
	}
	return list
}

// ordersHere says that no single statement knows the order of a list.
func (r *Request) ordersHere() bool {
	first := r.families()[0]
	return slices.ContainsFunc(r.order(), func(o OrderBy) bool {
		m := Metric(o.By)
		return r.asks(m) && (m == ConversionRate || familyOf(m) != first)
	})
}

// sort orders groups as r says, equal ones by time and values.
func (r *Request) sort(groups []*group) {
	order := r.order()
	slices.SortStableFunc(groups, func(a, b *group) int {
		for _, o := range order {
			c := r.compare(o.By, a, b)
			if o.Desc {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return cmp.Or(cmp.Compare(a.start, b.start), slices.Compare(a.values, b.values))
	})
}

func (r *Request) compare(by string, a, b *group) int {
	if by == OrderByTime {
		return cmp.Compare(a.start, b.start)
	}
	if i := slices.Index(r.Dimensions, by); i >= 0 {
		return cmp.Compare(a.values[i], b.values[i])
	}
	return cmp.Compare(a.number(Metric(by)), b.number(Metric(by)))
}
