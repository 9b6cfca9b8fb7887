//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/pagetally/pagetally/query"
	"github.com/pagetally/pagetally/schema"
)

// readCommand measures reads over a year.
type readCommand struct {
	Binary    string `help:"The pagetally whose engine is measured." default:"./pagetally" type:"existingfile"`
	EngineLib string `help:"Path of the embedded engine's library; empty: where pagetally looks." env:"PAGETALLY_ENGINE_LIB"`
	Dir       string `help:"Where to put the data folder, which is removed afterwards." type:"existingdir" default:"."`
	Views     int64  `help:"Page views of the year." default:"1000000"`
	Sites     int    `help:"Sites that share them." default:"20"`
	Runs      int    `help:"Times that each question is asked." default:"30"`
	JSON      bool   `name:"json" help:"Print JSON instead of a table."`
}

// Aims of reading.
const (
	aimCounted    = 50.0 // times as fast as over raw events, of views alone
	aimVisited    = 10.0 // with visitors or visits
	aimAnswer     = 100  // milliseconds, at the 95th percentile
	aimFinal      = 1.5  // times as slow with FINAL, of closed months
	aimFinalNow   = 3.0  // with the current one
	rawRuns       = 3
	readWarmUp    = 3
	currentEvents = 200 // INSERTs into the current month
)

// readRow is one question. Times are milliseconds.
type readRow struct {
	Question string  `json:"question"`
	P50      float64 `json:"p50_ms"`
	P95      float64 `json:"p95_ms"`
	Raw      float64 `json:"raw_ms"` // median, over raw events
	Times    float64 `json:"times_as_fast"`
	Aim      float64 `json:"aim"`
	Rows     uint64  `json:"read_rows"`
	Equal    bool    `json:"equal"` // to what the raw events say, as far as it is exact
}

type readResult struct {
	Views    int64     `json:"views"`
	Rows     []readRow `json:"rows"`
	Final    float64   `json:"final_ratio"`
	FinalNow float64   `json:"final_ratio_with_current_month"`
}

// Run fills a year, asks, prints, and fails when an answer is wrong.
func (c *readCommand) Run(ctx context.Context) error {
	dir, err := os.MkdirTemp(c.Dir, "pagetallybench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b := &bench{measureCommand: measureCommand{Binary: c.Binary, EngineLib: c.EngineLib}, dir: dir}
	server, err := b.serve(ctx, filepath.Join(dir, "year"), "--redis=off", "--site=nowhere.example")
	if err != nil {
		return err
	}
	defer server.kill()
	y := &year{conn: server.Conn, views: c.Views, sites: c.Sites}
	if err := y.fill(ctx); err != nil {
		return err
	}
	store, err := query.NewStore(query.StoreConfig{Conn: server.Conn, Now: func() time.Time { return yearNow }})
	if err != nil {
		return err
	}
	r := &readResult{Views: c.Views}
	for _, q := range readQuestions {
		say("%s", q.name)
		row, err := c.measure(ctx, server, store, q)
		if err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
		r.Rows = append(r.Rows, row)
	}
	if err := c.measureFinal(ctx, server, r); err != nil {
		return err
	}
	if c.JSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		err = e.Encode(r)
	} else {
		err = r.writeTable(os.Stdout)
	}
	for _, row := range r.Rows {
		if !row.Equal && err == nil {
			err = fmt.Errorf("%s: the answer is not what the raw events say", row.Question)
		}
	}
	return err
}

// readQuestion is asked of the product, and of the raw events in SQL. raw gives the rows' numbers added up, the exact one first.
type readQuestion struct {
	name   string
	params url.Values
	raw    string
	aim    float64
}

const (
	rawWhere = " FROM events WHERE site = 'site0.example' AND name = 'pageview' AND ts >= '2025-01-01 00:00:00' AND ts < '2026-01-01 00:00:00'"
	rawAll   = " FROM events WHERE site = 'site0.example' AND name != 'engagement' AND ts >= '2025-01-01 00:00:00' AND ts < '2026-01-01 00:00:00'"
)

var readQuestions = []readQuestion{
	{"a year by day: views", url.Values{"q": {"timeseries"}, "interval": {"day"}, "metrics": {"views"}}, "SELECT sum(v) FROM (SELECT toDate(ts) AS d, sum(n) AS v" + rawWhere + " GROUP BY d)", aimCounted},
	{"the same by month", url.Values{"q": {"timeseries"}, "interval": {"month"}, "metrics": {"views"}}, "SELECT sum(v) FROM (SELECT toStartOfMonth(ts) AS d, sum(n) AS v" + rawWhere + " GROUP BY d)", aimCounted},
	{"top 100 pages: views", url.Values{"q": {"top"}, "dimension": {"path"}, "metrics": {"views"}}, "SELECT sum(v) FROM (SELECT path_key, sum(n) AS v" + rawWhere + " GROUP BY path_key ORDER BY v DESC, path_key LIMIT 100)", aimCounted},
	{"totals: views", url.Values{"q": {"totals"}, "metrics": {"views"}}, "SELECT sum(n)" + rawWhere, aimCounted},
	{"a year by day: views, visitors", url.Values{"q": {"timeseries"}, "interval": {"day"}, "metrics": {"views,visitors"}}, "SELECT sum(v), sum(u) FROM (SELECT toDate(ts) AS d, sumIf(n, name = 'pageview') AS v, uniqCombined64(17)(visitor) AS u" + rawAll + " GROUP BY d)", aimVisited},
	{"top 100 pages: views, visitors", url.Values{"q": {"top"}, "dimension": {"path"}, "metrics": {"views,visitors"}}, "SELECT sum(v), sum(u) FROM (SELECT path_key, sumIf(n, name = 'pageview') AS v, uniqCombined64(15)(visitor) AS u" + rawAll + " GROUP BY path_key ORDER BY v DESC, path_key LIMIT 100)", aimVisited},
	{"totals: views, visitors", url.Values{"q": {"totals"}, "metrics": {"views,visitors"}}, "SELECT sumIf(n, name = 'pageview'), uniqCombined64(17)(visitor)" + rawAll, aimVisited},
	{"countries: views, visitors", url.Values{"q": {"top"}, "dimension": {"country"}, "metrics": {"views,visitors"}}, "SELECT sum(v), sum(u) FROM (SELECT country, sumIf(n, name = 'pageview') AS v, uniqCombined64(15)(visitor) AS u" + rawAll + " GROUP BY country)", aimVisited},
	{"a year by day: visits", url.Values{"q": {"timeseries"}, "interval": {"day"}, "metrics": {"visits"}}, "SELECT count() FROM (" + schema.VisitsQuery("(SELECT *"+rawAll+" AND "+schema.InVisits+")", "toDate(ts)") + ")", aimVisited},
}

// yearSites reads every site in UTC.
type yearSites struct{}

// ReadSite takes any domain.
func (yearSites) ReadSite(domain string) (query.Site, bool) { return query.Site{Domain: domain}, true }

func (c *readCommand) measure(ctx context.Context, server *counter, store *query.Store, q readQuestion) (readRow, error) {
	row := readRow{Question: q.name, Aim: q.aim}
	var exact int64
	var took []float64
	for i := range readWarmUp + c.Runs {
		began := time.Now()
		sum, _, err := ask(ctx, store, q.params, false)
		if err != nil {
			return row, err
		}
		if exact = sum; i >= readWarmUp {
			took = append(took, millis(began))
		}
	}
	_, explained, err := ask(ctx, store, q.params, true)
	if err != nil {
		return row, err
	}
	for _, statement := range explained.Statements {
		row.Rows += statement.ReadRows
	}
	slices.Sort(took)
	row.P50, row.P95 = took[len(took)/2], took[len(took)*95/100]
	want, raw, err := askRaw(ctx, server, q.raw)
	row.Raw, row.Times, row.Equal = raw, raw/row.P50, want == exact
	return row, err
}

func millis(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1000 }

// ask returns the first metric of all rows, added up.
func ask(ctx context.Context, store *query.Store, params url.Values, explain bool) (sum int64, how *query.Explanation, err error) {
	values := url.Values{"site": {yearSite(0)}, "from": {"2025-01-01"}, "to": {"2025-12-31"}}
	for name, value := range params {
		if name != "q" {
			values[name] = value
		}
	}
	if explain {
		values.Set("explain", "1")
	}
	q := query.Question(params.Get("q"))
	r, err := query.Parse(q, values, yearSites{}, yearNow)
	if err != nil {
		return 0, nil, err
	}
	first := r.Metrics[0]
	switch q {
	case query.Totals:
		a, err := store.Totals(ctx, r)
		if err != nil {
			return 0, nil, err
		}
		return a.Results[first].Value.(int64), a.Meta.Explanation, nil
	case query.Top:
		a, err := store.Top(ctx, r)
		for _, row := range a.Results {
			n, _ := row.Get(first)
			sum += n
		}
		return sum, a.Meta.Explanation, err
	default:
		a, err := store.Timeseries(ctx, r)
		for _, row := range a.Results {
			n, _ := row.Get(first)
			sum += n
		}
		return sum, a.Meta.Explanation, err
	}
}

// askRaw returns the first number of the answer and the median time.
func askRaw(ctx context.Context, server *counter, sql string) (first int64, median float64, err error) {
	var took []float64
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"use_query_condition_cache": 0}))
	for range rawRuns {
		began := time.Now()
		rows, err := server.Query(ctx, "SELECT toInt64(answer.1) FROM (SELECT tuple(*) AS answer FROM ("+sql+"))")
		if err != nil {
			return 0, 0, err
		}
		for rows.Next() {
			if err := rows.Scan(&first); err != nil {
				return 0, 0, err
			}
		}
		if err := rows.Close(); err != nil {
			return 0, 0, err
		}
		took = append(took, millis(began))
	}
	slices.Sort(took)
	return first, took[len(took)/2], nil
}

// measureFinal compares sums with FINAL and without: over months that are merged, and with one into which events have just come.
func (c *readCommand) measureFinal(ctx context.Context, server *counter, r *readResult) error {
	say("FINAL")
	for month := range 12 {
		if err := server.Exec(ctx, fmt.Sprintf("OPTIMIZE TABLE views PARTITION %d FINAL", 202501+month)); err != nil {
			return err
		}
	}
	var err error
	if r.Final, err = c.finalRatio(ctx, server); err != nil {
		return err
	}
	for i := range currentEvents { // as a server leaves them: some parts of a second each
		err := server.Exec(ctx, fmt.Sprintf("INSERT INTO views (site, name, bucket, path_key, n) SELECT '%s', 'pageview', toDateTime('2026-01-01 00:00:00', 'UTC') + INTERVAL %d HOUR, '/page/' || toString(number), 1 FROM numbers(500)",
			yearSite(0), i))
		if err != nil {
			return err
		}
	}
	r.FinalNow, err = c.finalRatio(ctx, server)
	return err
}

func (c *readCommand) finalRatio(ctx context.Context, server *counter) (float64, error) {
	var medians []float64
	for _, final := range []string{"", " FINAL"} {
		_, median, err := askRaw(clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"do_not_merge_across_partitions_select_final": 1})), server,
			"SELECT sum(n) FROM views"+final+" WHERE site = '"+yearSite(0)+"' AND name = 'pageview'")
		if err != nil {
			return 0, err
		}
		medians = append(medians, median)
	}
	return medians[1] / medians[0], nil
}

func (r *readResult) writeTable(w io.Writer) error {
	fmt.Fprintf(w, "reads of one of several sites over a year of %d views\n\n", r.Views)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "question\tp50 ms\tp95 ms\trows read\tover raw events ms\ttimes as fast\taim\t")
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%s\t%.1f\t%.1f\t%d\t%.1f\t%.1f\t", row.Question, row.P50, row.P95, row.Rows, row.Raw, row.Times)
		aim(t, "", fmt.Sprintf("at least %g, p95 under %d ms", row.Aim, aimAnswer), "", row.Times >= row.Aim && row.P95 < aimAnswer)
	}
	aim(t, "FINAL, closed months", fmt.Sprintf("%.2f times", r.Final), fmt.Sprintf("at most %g", aimFinal), r.Final <= aimFinal)
	aim(t, "FINAL, with the current month", fmt.Sprintf("%.2f times", r.FinalNow), fmt.Sprintf("at most %g", aimFinalNow), r.FinalNow <= aimFinalNow)
	return t.Flush()
}
