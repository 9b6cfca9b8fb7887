package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/query"
)

// queryCommand reads counts from the command line; its flags are the parameters of the HTTP endpoints of the same names.
type queryCommand struct {
	Count      countQuery      `cmd:"" help:"One page, or a whole site."`
	Totals     totalsQuery     `cmd:"" help:"Each metric of a site or page."`
	Timeseries timeseriesQuery `cmd:"" help:"A bar for each hour, day, week or month."`
	Top        topQuery        `cmd:"" help:"The values of a dimension with the most views."`
}

// question holds the flags of every query. The site is an argument, because --site is a setting.
type question struct {
	Domain  string   `arg:"" help:"The site."`
	Path    string   `help:"Page, as a path or URL. Empty: all pages."`
	Name    string   `help:"Name of a custom event. Empty: page views and all events."`
	From    string   `help:"First day (2025-03-01), or an instant with an offset."`
	To      string   `help:"Last day, included; or an instant, excluded."`
	Period  string   `help:"day, 24h, 7d, 28d, 30d, 91d, month, 6mo, 12mo, year, all."`
	TZ      string   `name:"tz" help:"Time zone in which days are cut. Empty: the site's."`
	Metrics []string `help:"views, events, visitors."`
	JSON    bool     `name:"json" help:"Print JSON instead of a table."`
}

// values are the question as the HTTP endpoint's parameters.
func (q *question) values() url.Values {
	values := url.Values{"site": {q.Domain}}
	for name, value := range map[string]string{
		"path": q.Path, "name": q.Name, "from": q.From, "to": q.To, "period": q.Period, "tz": q.TZ, "metrics": strings.Join(q.Metrics, ","),
	} {
		setParam(values, name, value)
	}
	return values
}

func setParam(values url.Values, name, value string) {
	if value != "" {
		values.Set(name, value)
	}
}

type countQuery struct{ question }

type totalsQuery struct {
	question
	Compare string `help:"Compare with: previous_period or year_over_year."`
}

type timeseriesQuery struct {
	question
	Interval string `help:"hour, day, week or month. Empty: what suits the range."`
}

type topQuery struct {
	question
	Dimension string `help:"path, title, source, country, browser, ..." default:"path"`
	Limit     int    `help:"Number of values." default:"10"`
	Page      int    `help:"Which page of them, from 1." default:"1"`
}

// Run prints the count of a page or site.
func (q countQuery) Run(ctx context.Context, s *Settings, out io.Writer) error {
	return answer(ctx, s, out, q.JSON, query.Count, q.values(), (*query.Store).Count)
}

// Run prints each metric.
func (q totalsQuery) Run(ctx context.Context, s *Settings, out io.Writer) error {
	values := q.values()
	setParam(values, "compare", q.Compare)
	return answer(ctx, s, out, q.JSON, query.Totals, values, (*query.Store).Totals)
}

// Run prints a bar for each interval.
func (q timeseriesQuery) Run(ctx context.Context, s *Settings, out io.Writer) error {
	values := q.values()
	setParam(values, "interval", q.Interval)
	return answer(ctx, s, out, q.JSON, query.Timeseries, values, (*query.Store).Timeseries)
}

// Run prints the most viewed values of a dimension.
func (q topQuery) Run(ctx context.Context, s *Settings, out io.Writer) error {
	values := q.values()
	setParam(values, "dimension", q.Dimension)
	setParam(values, "limit", strconv.Itoa(q.Limit))
	setParam(values, "page", strconv.Itoa(q.Page))
	return answer(ctx, s, out, q.JSON, query.Top, values, (*query.Store).Top)
}

// table is an answer that can be printed as one.
type table interface{ WriteTable(io.Writer) error }

// answer parses the question like the HTTP endpoint does, asks it and prints the result.
func answer[A table](ctx context.Context, s *Settings, out io.Writer, asJSON bool, q query.Question, values url.Values,
	ask func(*query.Store, context.Context, query.Request) (A, error),
) error {
	db, err := connect(ctx, s)
	if err != nil {
		return err
	}
	defer db.Close()
	sites, err := s.knownSites(ctx, db.Conn)
	if err != nil {
		return err
	}
	request, err := query.Parse(q, values, readSites{sites.Sites}, time.Now())
	if err != nil {
		return fmt.Errorf("bad parameter: %w", err)
	}
	store, err := query.NewStore(query.StoreConfig{Conn: db.Conn, InFlight: journalFolder(s.path(journalDir))})
	if err != nil {
		return err
	}
	result, err := ask(store, ctx, request)
	if err != nil {
		return err
	}
	if !asJSON {
		return result.WriteTable(out)
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(result)
}

// journalFolder tells from its files what a journal holds that is not counted yet, for a process that does not run it.
type journalFolder string

// AsOf is the receive time of the oldest event that is not counted yet, or the zero time.
func (dir journalFolder) AsOf() (oldest time.Time) {
	dir.each(func(info journal.Info) {
		if oldest.IsZero() || info.Created.Before(oldest) {
			oldest = info.Created
		}
	})
	return oldest
}

// Pending is the number of events that are not counted yet.
func (dir journalFolder) Pending() (rows int64) {
	dir.each(func(info journal.Info) { rows += int64(info.Rows) })
	return rows
}

func (dir journalFolder) each(visit func(journal.Info)) {
	for _, state := range []journal.State{journal.StateOpen, journal.StateSealed} {
		segments, err := journal.List(string(dir), state)
		if err != nil {
			continue // no journal here: nothing is in flight that this machine knows of
		}
		for _, info := range segments {
			if !info.Created.IsZero() {
				visit(info)
			}
		}
	}
}
