package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
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
	Timeseries timeseriesQuery `cmd:"" help:"A bar for each minute, hour, day, week, month or year."`
	Top        topQuery        `cmd:"" help:"The values of a dimension with the most views."`
	Realtime   realtimeQuery   `cmd:"" help:"The last hour, from the tables: what the journal holds is not in it yet."`
}

// question holds the flags of every query. The site is an argument, because --site is a setting.
type question struct {
	Domain  string   `arg:"" help:"The site."`
	Path    string   `help:"Page, as a path or URL. Empty: all pages."`
	Name    string   `help:"Name of a custom event. Empty: page views and all events."`
	From    string   `help:"First day (2025-03-01), or an instant with an offset."`
	To      string   `help:"Last day, included; or an instant, excluded."`
	Period  string   `help:"day, 24h, realtime, 7d, 28d, 30d, 91d, month, 6mo, 12mo, year, all."`
	TZ      string   `name:"tz" help:"Time zone in which days are cut. Empty: the site's."`
	Metrics []string `help:"views, events, visitors, visits, views_per_visit, bounce_rate, visit_duration, time_on_page, scroll_depth, conversion_rate."`
	Filters string   `help:"JSON list of filters, all of which must hold." placeholder:"'[[\"is\",\"country\",[\"DE\"]]]'"`
	JSON    bool     `name:"json" xor:"format" help:"Print JSON instead of a table."`
	CSV     bool     `name:"csv" xor:"format" help:"Print CSV instead of a table."`
	Explain bool     `help:"With --json: tell how the answer was found, what was read and how long it took."`
}

// values are the question as the HTTP endpoint's parameters.
func (q *question) values(more map[string]string) url.Values {
	values := url.Values{"site": {q.Domain}}
	explain := ""
	if q.Explain {
		explain = "1"
	}
	for _, params := range []map[string]string{{
		"path": q.Path, "name": q.Name, "from": q.From, "to": q.To, "period": q.Period, "tz": q.TZ, "metrics": strings.Join(q.Metrics, ","),
		"filters": q.Filters, "explain": explain,
	}, more} {
		for name, value := range params {
			if value != "" {
				values.Set(name, value)
			}
		}
	}
	return values
}

type countQuery struct{ question }

type totalsQuery struct {
	question
	Compare string `help:"Compare with what came before: previous (as long a time) or year (the same dates)." placeholder:"previous|year"`
}

type timeseriesQuery struct {
	question
	Interval  string `help:"minute, hour, day, week, month or year. Empty: what suits the range."`
	WeekStart string `help:"First day of weeks: monday or sunday. Empty: the site's."`
	Compare   string `help:"Compare with what came before: previous (as long a time) or year (the same dates)." placeholder:"previous|year"`
}

type topQuery struct {
	question
	Dimension []string `help:"One or more of path, title, source, country, browser, entry_page, visit:source, props.NAME, goal, ..." default:"path"`
	Order     []string `help:"Metrics and dimensions to order by; a minus before one turns it round."`
	Limit     int      `help:"Number of rows." default:"10"`
	Page      int      `help:"Which page of them, from 1." default:"1"`
}

// Run prints the count of a page or site.
func (q countQuery) Run(ctx context.Context, s *Settings, out io.Writer) error {
	return answer(ctx, s, out, &q.question, query.Count, nil, (*query.Store).Count)
}

// Run prints each metric.
func (q totalsQuery) Run(ctx context.Context, s *Settings, out io.Writer) error {
	return answer(ctx, s, out, &q.question, query.Totals, map[string]string{"compare": q.Compare}, (*query.Store).Totals)
}

// Run prints a bar for each interval.
func (q timeseriesQuery) Run(ctx context.Context, s *Settings, out io.Writer) error {
	more := map[string]string{"interval": q.Interval, "week_start": q.WeekStart, "compare": q.Compare}
	return answer(ctx, s, out, &q.question, query.Timeseries, more, (*query.Store).Timeseries)
}

// Run prints the most viewed values of a dimension.
func (q topQuery) Run(ctx context.Context, s *Settings, out io.Writer) error {
	more := map[string]string{
		"dimension": strings.Join(q.Dimension, ","), "order": strings.Join(q.Order, ","),
		"limit": strconv.Itoa(q.Limit), "page": strconv.Itoa(q.Page),
	}
	return answer(ctx, s, out, &q.question, query.Top, more, (*query.Store).Top)
}

type realtimeQuery struct {
	Domain string `arg:"" help:"The site."`
	JSON   bool   `name:"json" xor:"format" help:"Print JSON instead of a table."`
	CSV    bool   `name:"csv" xor:"format" help:"Print the minutes as CSV instead of a table."`
}

// Run prints what happens now.
func (q realtimeQuery) Run(ctx context.Context, s *Settings, out io.Writer) error {
	return s.asking(ctx, func(store *query.Store, sites readSites) error {
		site, ok := sites.ReadSite(q.Domain)
		if !ok {
			return fmt.Errorf("no such site: %.100q", q.Domain)
		}
		result, err := store.Realtime(ctx, site.Domain)
		if err != nil {
			return err
		}
		return show(out, result, q.JSON, q.CSV)
	})
}

// table is an answer that can be printed.
type table interface {
	WriteTable(io.Writer) error
	WriteCSV(io.Writer) error
}

// answer parses the question like the HTTP endpoint does, asks it and prints the result.
func answer[A table](ctx context.Context, s *Settings, out io.Writer, asked *question, q query.Question, more map[string]string,
	ask func(*query.Store, context.Context, query.Request) (A, error),
) error {
	return s.asking(ctx, func(store *query.Store, sites readSites) error {
		request, err := query.Parse(q, asked.values(more), sites, time.Now())
		if err != nil {
			return fmt.Errorf("bad parameter: %w", err)
		}
		result, err := ask(store, ctx, request)
		if err != nil {
			return err
		}
		return show(out, result, asked.JSON, asked.CSV)
	})
}

// asking opens what a question needs.
func (s *Settings) asking(ctx context.Context, ask func(*query.Store, readSites) error) error {
	db, err := connect(ctx, s)
	if err != nil {
		return err
	}
	defer db.Close()
	sites, err := s.knownSites(ctx, db.Conn)
	if err != nil {
		return err
	}
	store, err := query.NewStore(query.StoreConfig{Conn: db.Conn, InFlight: journalFolder(s.path(journalDir))})
	if err != nil {
		return err
	}
	return ask(store, readSites{sites.Sites})
}

// show prints an answer; a table in a terminal has a sparkline, if there is one.
func show(out io.Writer, result table, asJSON, asCSV bool) error {
	switch {
	case asCSV:
		return result.WriteCSV(out)
	case asJSON:
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(result)
	}
	if drawn, ok := result.(interface{ Spark() string }); ok && isTerminal(out) {
		if line := drawn.Spark(); line != "" {
			if _, err := fmt.Fprintf(out, "%s\n\n", line); err != nil {
				return err
			}
		}
	}
	return result.WriteTable(out)
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
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
