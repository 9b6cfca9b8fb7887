package aggregate

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pagetally/pagetally/schema"
)

// hotMinute is what a batch adds to one minute of one site.
type hotMinute struct {
	batch    string // id of the batch, the marker's: the events in ClickHouse carry it too
	site     string
	minute   int64
	views    int64
	events   int64
	pages    map[string]int64 // page views by page key
	cut      bool             // there are more pages
	noPages  bool             // too old for pages
	fields   map[string]int64 // of the other kinds that are bounded
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

// hotPart is a minute as far as a batch adds to it.
type hotPart struct {
	siteMinute
	batch ulid.ULID
}

// hotMinutesOf adds up the rows that g counts, as far as they are not older than hot counts are kept at now.
func hotMinutesOf(g *group, now time.Time) ([]*hotMinute, error) {
	oldest := now.Unix()/60 - schema.HotMinutes
	found := map[hotPart]*hotMinute{}
	var at hotPart
	var last *hotMinute
	err := visit(g.segments, func(r *row) error {
		e := r.event
		minute := e.TS / 60_000
		if minute < oldest || g.skip[r.number] || e.Name == schema.Engagement {
			return nil
		}
		batch := g.batchOf(r)
		if last == nil || at.minute != minute || at.site != e.Site || at.batch != batch {
			at = hotPart{siteMinute{e.Site, minute}, batch}
			if last = found[at]; last == nil {
				last = newHotMinute(at)
				last.noPages = minute < oldest+schema.HotMinutes-hotPageMinutes
				found[at] = last
			}
		}
		last.add(e)
		return nil
	})
	return slices.Collect(maps.Values(found)), err
}

// hotPageMinutes is how far back pages are written: a reader whose clock is late asks for no more.
const hotPageMinutes = schema.HotPageMinutes + 5

func newHotMinute(at hotPart) *hotMinute {
	return &hotMinute{
		batch: at.batch.String(), site: at.site, minute: at.minute,
		pages: map[string]int64{}, fields: map[string]int64{}, visitors: map[uint64]struct{}{},
	}
}

// batchOf is the batch that a counted row was first put into. Halves of a refused one come after it in the list, so that what a row
// is marked by does not change when its batch is split.
func (g *group) batchOf(r *row) ulid.ULID {
	for _, b := range g.Batches {
		if r.number >= b.From && r.number < b.To && (b.Months == nil || slices.Contains(b.Months, r.event.Month())) {
			return b.ID
		}
	}
	return g.ID // no decision leaves a counted row out
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
	m.addPage(e.PathKey, e.N)
	m.addField(schema.HotSource, e.Source, e.N)
	m.addField(schema.HotCountry, e.Country, e.N)
}

func (m *hotMinute) addPage(path string, n int64) {
	if _, ok := m.pages[path]; !ok && len(m.pages) >= schema.HotPageLimit {
		m.cut = true
		return
	}
	m.pages[path] += n
}

func (m *hotMinute) addField(kind, value string, n int64) {
	field := kind + value
	if _, ok := m.fields[field]; ok || len(m.fields) < hotGathered {
		m.fields[field] += n
	}
}

// hotField is a field of a minute's hash.
type hotField struct {
	name  string
	count int64
}

// top lists the fields with the greatest counts, as many as a minute may hold.
func (m *hotMinute) top() []hotField {
	all := make([]hotField, 0, len(m.pages)+len(m.fields))
	for path, n := range m.pages {
		all = append(all, hotField{schema.HotPath + path, n})
	}
	for name, n := range m.fields {
		all = append(all, hotField{name, n})
	}
	slices.SortFunc(all, func(a, b hotField) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.name, b.name))
	})
	return all[:min(len(all), schema.HotFieldLimit)]
}

// keys and args are those of hotScript.
func (m *hotMinute) keys() []string {
	return []string{
		schema.HotBatchKey(m.site, m.batch, m.minute), schema.HotMinuteKey(m.site, m.minute), schema.HotVisitorsKey(m.site, m.minute),
		schema.HotPagesKey(m.site, m.minute),
	}
}

func (m *hotMinute) args() []any {
	fields := m.top()
	args := make([]any, 0, 10+2*len(fields)+2*len(m.pages)+len(m.visitors))
	args = append(args, int(hotExpiry/time.Second), int(hotPageExpiry/time.Second), schema.HotFieldLimit, schema.HotPageLimit,
		m.views, m.events, m.pageFlag(), len(fields), m.sentPages())
	for _, f := range fields {
		args = append(args, f.name, f.count)
	}
	if !m.noPages {
		for path, n := range m.pages {
			args = append(args, path, n)
		}
	}
	for visitor := range m.visitors {
		args = append(args, hotVisitor(visitor))
	}
	return args
}

// pageFlag tells hotScript what to make of the pages.
func (m *hotMinute) pageFlag() string {
	switch {
	case m.noPages:
		return "none"
	case m.cut:
		return schema.HotCut
	}
	return "all"
}

func (m *hotMinute) sentPages() int {
	if m.noPages {
		return 0
	}
	return len(m.pages)
}

// hotVisitor is a visitor as an element of a sketch in Redis.
func hotVisitor(visitor uint64) string { return strconv.FormatUint(visitor, 36) }
