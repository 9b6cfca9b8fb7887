package aggregate

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/pagetally/pagetally/schema"
)

// hotMinute is what a group adds to one minute of one site.
type hotMinute struct {
	group    string // id of the group, the marker's
	site     string
	minute   int64
	views    int64
	events   int64
	fields   map[string]int64 // of the kinds that are bounded
	visitors map[uint64]struct{}
}

// Bounds of a hotMinute: what is more is left out of the lists and of the sketch, and stays in the sums.
const (
	hotGathered = 4 * schema.HotFieldLimit
	hotVisitors = 20_000
)

type siteMinute struct {
	site   string
	minute int64
}

// hotMinutesOf adds up the rows that g counts, as far as they are not older than hot counts are kept at now.
func hotMinutesOf(g *group, now time.Time) ([]*hotMinute, error) {
	oldest := now.Unix()/60 - schema.HotMinutes
	found := map[siteMinute]*hotMinute{}
	var last *hotMinute
	err := visit(g.segments, func(r *row) error {
		e := r.event
		minute := e.TS / 60_000
		if minute < oldest || g.skip[r.number] || e.Name == schema.Engagement {
			return nil
		}
		if last == nil || last.minute != minute || last.site != e.Site {
			key := siteMinute{e.Site, minute}
			if last = found[key]; last == nil {
				last = &hotMinute{
					group: g.ID.String(), site: e.Site, minute: minute,
					fields: map[string]int64{}, visitors: map[uint64]struct{}{},
				}
				found[key] = last
			}
		}
		last.add(e)
		return nil
	})
	return slices.Collect(maps.Values(found)), err
}

func (m *hotMinute) add(e *schema.Event) {
	m.events += e.N
	if e.Visitor != 0 && len(m.visitors) < hotVisitors {
		m.visitors[e.Visitor] = struct{}{}
	}
	if e.Name != schema.PageView {
		return
	}
	m.views += e.N
	m.addField(schema.HotPath, e.PathKey, e.N)
	m.addField(schema.HotSource, e.Source, e.N)
	m.addField(schema.HotCountry, e.Country, e.N)
}

func (m *hotMinute) addField(kind, value string, n int64) {
	field := kind + value
	if _, ok := m.fields[field]; ok || len(m.fields) < hotGathered {
		m.fields[field] += n
	}
}

// top lists the fields with the greatest counts, as many as a minute may hold.
func (m *hotMinute) top() []string {
	names := slices.SortedFunc(maps.Keys(m.fields), func(a, b string) int {
		return cmp.Or(cmp.Compare(m.fields[b], m.fields[a]), cmp.Compare(a, b))
	})
	return names[:min(len(names), schema.HotFieldLimit)]
}

// keys and args are those of hotScript.
func (m *hotMinute) keys() []string {
	return []string{
		schema.HotGroupKey(m.site, m.group, m.minute), schema.HotMinuteKey(m.site, m.minute), schema.HotVisitorsKey(m.site, m.minute),
	}
}

func (m *hotMinute) args() []any {
	names := m.top()
	args := make([]any, 0, 5+2*len(names)+len(m.visitors))
	args = append(args, int(hotExpiry/time.Second), schema.HotFieldLimit, len(names), m.views, m.events)
	for _, name := range names {
		args = append(args, name, m.fields[name])
	}
	for visitor := range m.visitors {
		args = append(args, hotVisitor(visitor))
	}
	return args
}

// hotVisitor is a visitor as an element of a sketch in Redis.
func hotVisitor(visitor uint64) string { return strconv.FormatUint(visitor, 36) }
