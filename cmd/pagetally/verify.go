package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"
	"github.com/gofrs/flock"

	"github.com/pagetally/pagetally/aggregate"
)

// verifyCommand compares the rollups with the events.
type verifyCommand struct {
	From   string `help:"First day (2025-03-01, UTC)." required:"" placeholder:"DATE"`
	To     string `help:"Last day (UTC), included." required:"" placeholder:"DATE"`
	Repair bool   `help:"Make the rollups agree with the events."`
	JSON   bool   `name:"json" help:"Print JSON instead of a table."`
}

func (verifyCommand) Help() string {
	return "Adds the events up and compares the sums, and the visitors, with every rollup: views, visitors, dimensions, by site and quarter " +
		"of an hour. Right while events arrive: a bucket that they keep arriving in is left out and said to be unsettled. --repair adds what " +
		"is missing and takes away what is too much. Verifies one site with --site, all without. The exit code is 1 when something differs and " +
		"was not repaired."
}

// mostShown bounds the differing buckets that are printed; JSON has more.
const mostShown = 20

// Run compares, prints what it found and returns an exitError when something differs still.
func (c verifyCommand) Run(ctx context.Context, s *Settings, k *kong.Context, out io.Writer) error {
	cfg := aggregate.VerifyConfig{Repair: c.Repair, Progress: c.progress(os.Stderr)}
	var err error
	if cfg.From, err = time.Parse(time.DateOnly, c.From); err != nil {
		return fmt.Errorf("--from: %q is no date such as 2025-03-01", c.From)
	}
	if cfg.To, err = time.Parse(time.DateOnly, c.To); err != nil {
		return fmt.Errorf("--to: %q is no date such as 2025-03-01", c.To)
	}
	if cfg.Site, err = siteGiven(k, s); err != nil {
		return err
	}
	if c.Repair {
		unlock, err := lockRepair(s)
		if err != nil {
			return err
		}
		defer unlock()
	}
	db, err := connect(ctx, s)
	if err != nil {
		return err
	}
	defer db.Close()
	cfg.Conn = db.Conn
	if cfg.Retention, err = retentions(ctx, s, db); err != nil {
		return err
	}
	found, err := aggregate.Verify(ctx, cfg)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	if err := c.print(out, found); err != nil {
		return err
	}
	if found.Differs() {
		return exitError(1)
	}
	return nil
}

// siteGiven is the site that the command line names: --site in the environment or the configuration file is the server's.
func siteGiven(k *kong.Context, s *Settings) (string, error) {
	given := slices.ContainsFunc(k.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == "site" && !p.Resolved })
	switch {
	case !given:
		return "", nil
	case len(s.Site) != 1:
		return "", fmt.Errorf("--site: %d sites are given, verify takes one or all", len(s.Site))
	}
	return s.Site[0], nil
}

// lockRepair keeps a second repair away, which would repair the same differences once more.
func lockRepair(s *Settings) (unlock func(), err error) {
	if err := os.MkdirAll(s.Data, 0o700); err != nil {
		return nil, fmt.Errorf("--data: %w", err)
	}
	lock := flock.New(s.path("repair.lock"), flock.SetPermissions(0o600))
	switch locked, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("lock repairs: %w", err)
	case !locked:
		return nil, fmt.Errorf("another repair runs on %s", s.Data)
	}
	return func() { _ = lock.Close() }, nil
}

// retentions says for how many days each site keeps its events, of those that do not keep them for ever.
func retentions(ctx context.Context, s *Settings, db *connection) (map[string]int, error) {
	sites, err := s.knownSites(ctx, db.Conn)
	if err != nil {
		return nil, err
	}
	days := map[string]int{}
	for _, known := range sites.Known() {
		if known.RetentionDays > 0 {
			days[known.Domain] = known.RetentionDays
		}
	}
	return days, nil
}

// progress names each day of a long range before it is verified.
func (c verifyCommand) progress(w io.Writer) func(time.Time) {
	if c.From == c.To {
		return nil
	}
	return func(day time.Time) { fmt.Fprintf(w, "verifying %s\n", day.Format(time.DateOnly)) }
}

func (c verifyCommand) print(out io.Writer, found *aggregate.Verification) error {
	if c.JSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(found)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "table\tbuckets\tdiffer\trepaired\tunsettled\trows\tn short\tn over\tvisitors\t")
	var unsettled uint64
	for _, t := range found.Tables {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", t.Table, t.Buckets, t.Differing, t.Repaired, t.Unsettled, t.Rows, t.Short, t.Over, t.Visitors)
		unsettled += t.Unsettled
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := printDifferences(out, found); err != nil {
		return err
	}
	if unsettled > 0 {
		fmt.Fprintln(out, "Unsettled buckets were not judged: events kept arriving in them, or a batch of theirs is not stored yet. Verify them later.")
	}
	for _, site := range slices.Sorted(maps.Keys(found.Shortened)) {
		fmt.Fprintf(out, "%s was verified from %s on: it keeps no older events.\n", site, found.Shortened[site])
	}
	if found.Differs() && !c.Repair {
		fmt.Fprintln(out, "Run it again with --repair to make the rollups agree with the events.")
	}
	return nil
}

// printDifferences names the first buckets that differ.
func printDifferences(out io.Writer, found *aggregate.Verification) error {
	if len(found.Buckets) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\ntable\tbucket\tsite\trows\tn short\tn over\tvisitors\t")
	for _, b := range found.Buckets[:min(len(found.Buckets), mostShown)] {
		state := "differs"
		if b.Repaired {
			state = "repaired"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\n", b.Table, b.Bucket.Format(time.RFC3339), b.Site, b.Rows, b.Short, b.Over, b.Visitors, state)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var all uint64
	for _, t := range found.Tables {
		all += t.Differing
	}
	if all > mostShown {
		fmt.Fprintf(out, "and %d more; --json prints %d\n", all-mostShown, min(all, aggregate.MostDifferences))
	}
	return nil
}
