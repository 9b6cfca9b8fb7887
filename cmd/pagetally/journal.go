package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pagetally/pagetally/aggregate"
	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
)

// journalDir is the journal's folder in the data folder.
const journalDir = "journal"

// journalCommand looks into the journal of a data folder, whether a server runs on it or not.
type journalCommand struct {
	List   journalList   `cmd:"" help:"List the segments: what waits, what was set aside and why."`
	Show   journalShow   `cmd:"" help:"Print the events of a segment, one JSON object a line, and why it was set aside."`
	Export journalExport `cmd:"" help:"Print the events of a segment in the form that POST /v1/events takes (NDJSON)."`
	Retry  journalRetry  `cmd:"" help:"Have a quarantined segment delivered again."`
	Drop   journalDrop   `cmd:"" help:"Give a quarantined segment up: its events will never count."`
}

type journalList struct {
	JSON bool `name:"json" help:"Print JSON instead of a table."`
}

// listedSegment is a line of `journal list`.
type listedSegment struct {
	ID      string    `json:"id"`
	State   string    `json:"state"`
	Kind    string    `json:"kind"`
	Rows    int       `json:"rows"`
	Bytes   int64     `json:"bytes"`
	Created time.Time `json:"created"`
	Reason  string    `json:"reason,omitempty"`
}

// Run lists every segment, by state and then by age.
func (c journalList) Run(s *Settings, out io.Writer) error {
	segments := []listedSegment{}
	for _, state := range segmentStates {
		infos, err := journal.List(s.path(journalDir), state)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("list journal: %w", err)
		}
		for _, info := range infos {
			segments = append(segments, listed(s, info))
		}
	}
	if c.JSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(segments)
	}
	return printSegments(out, segments)
}

var segmentStates = []journal.State{
	journal.StateOpen, journal.StateSealed, journal.StateParked, journal.StateQuarantined, journal.StateKept,
}

func listed(s *Settings, info journal.Info) listedSegment {
	l := listedSegment{
		ID: info.ID.String(), State: info.State.String(), Kind: info.Kind.String(), Rows: info.Rows, Bytes: info.Bytes, Created: info.Created.UTC(),
	}
	switch {
	case info.Damaged:
		l.Kind, l.Reason = "damaged", "header or footer cannot be read"
	case info.State == journal.StateQuarantined:
		l.Reason = strings.Join(quarantineReasons(s, info.ID), "; ")
	}
	return l
}

func printSegments(out io.Writer, segments []listedSegment) error {
	if len(segments) == 0 {
		_, err := fmt.Fprintln(out, "nothing waits and nothing was set aside")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "segment\tstate\tkind\tevents\tbytes\tcreated\treason")
	for _, l := range segments {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", l.ID, l.State, l.Kind, l.Rows, l.Bytes, l.Created.Format(time.RFC3339), firstLine(l.Reason))
	}
	return w.Flush()
}

// quarantineReasons are the distinct answers of ClickHouse for which rows were set aside.
func quarantineReasons(s *Settings, id ulid.ULID) []string {
	note, err := aggregate.ReadQuarantine(s.path(journalDir), id)
	if err != nil {
		return nil // the note is for people; the segment speaks for itself
	}
	seen := map[string]bool{}
	var reasons []string
	for _, reason := range note.Reasons {
		if !seen[reason] {
			seen[reason] = true
			reasons = append(reasons, reason)
		}
	}
	return reasons
}

// segmentArg names a segment of the journal.
type segmentArg struct {
	ID string `arg:"" help:"The segment, as 'journal list' prints it."`
}

// find says in which state, and file, the segment is.
func (a segmentArg) find(s *Settings) (path string, state journal.State, err error) {
	id, err := ulid.ParseStrict(a.ID)
	if err != nil {
		return "", 0, fmt.Errorf("%q names no segment", a.ID)
	}
	for _, state := range segmentStates {
		path := filepath.Join(s.path(journalDir), state.String(), id.String()+".seg")
		switch _, err := os.Stat(path); {
		case err == nil:
			return path, state, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", 0, fmt.Errorf("find segment: %w", err)
		}
	}
	return "", 0, fmt.Errorf("segment %s: %w", a.ID, journal.ErrNotFound)
}

// open reads the segment from whatever state it is in.
func (a segmentArg) open(s *Settings) (*journal.Segment, error) {
	path, _, err := a.find(s)
	if err != nil {
		return nil, err
	}
	segment, err := journal.ReadSegmentFile(path)
	if err != nil {
		return nil, fmt.Errorf("read segment: %w", err)
	}
	return segment, nil
}

type journalShow struct{ segmentArg }

// Run prints everything that is journaled of each event.
func (c journalShow) Run(s *Settings, out io.Writer) error {
	segment, err := c.open(s)
	if err != nil {
		return err
	}
	return eachLine(out, segment, func(e *schema.Event) any { return e })
}

type journalExport struct{ segmentArg }

// Run prints the events as a keyed caller would send them.
func (c journalExport) Run(s *Settings, out io.Writer) error {
	segment, err := c.open(s)
	if err != nil {
		return err
	}
	return eachLine(out, segment, func(e *schema.Event) any { return exported(e) })
}

func eachLine(out io.Writer, segment *journal.Segment, form func(*schema.Event) any) error {
	w := bufio.NewWriter(out)
	lines := json.NewEncoder(w)
	for e, err := range aggregate.EventsOf(segment) {
		if err != nil {
			return fmt.Errorf("read segment: %w", errors.Join(err, w.Flush()))
		}
		if err := lines.Encode(form(&e)); err != nil {
			return err
		}
	}
	return w.Flush()
}

// exportedEvent is an item of POST /v1/events. The visitor is not in it: what it was made of is not stored.
type exportedEvent struct {
	ID       string            `json:"id,omitempty"`
	Site     string            `json:"site"`
	Name     string            `json:"name"`
	URL      string            `json:"url,omitempty"`
	Path     string            `json:"path,omitempty"`
	Title    string            `json:"title,omitempty"`
	Referrer string            `json:"referrer,omitempty"`
	Props    map[string]string `json:"props,omitempty"`
	N        int64             `json:"n"`
	TS       string            `json:"ts"`
	Language string            `json:"language,omitempty"`
}

func exported(e *schema.Event) exportedEvent {
	x := exportedEvent{
		ID: e.EventID, Site: e.Site, Name: e.Name, Path: e.Path, Title: e.Title, Referrer: e.Referrer, N: e.N, Language: e.Language,
		TS: time.UnixMilli(e.TS).UTC().Format("2006-01-02T15:04:05.000Z"),
	}
	if e.Hostname != "" {
		x.URL, x.Path = "https://"+e.Hostname+e.Path, ""
	}
	for _, p := range e.Props {
		if x.Props == nil {
			x.Props = map[string]string{}
		}
		x.Props[p.Key] = p.Value
	}
	return x
}

type journalRetry struct{ segmentArg }

// Run asks the node to deliver the segment again: a running one does within seconds, a stopped one when it starts.
func (c journalRetry) Run(s *Settings, out io.Writer) error {
	return request(s, out, c.segmentArg, aggregate.ActionRetry, "will be delivered again")
}

type journalDrop struct {
	segmentArg
	Yes bool `help:"Confirms: the events are gone for good. Export them first if in doubt."`
}

// Run asks the node to drop the segment.
func (c journalDrop) Run(s *Settings, out io.Writer) error {
	if !c.Yes {
		return errors.New("the events of the segment will never count: repeat with --yes, perhaps after `pagetally journal export`")
	}
	return request(s, out, c.segmentArg, aggregate.ActionDrop, "will be dropped")
}

// request asks the node, running or not, to act on a quarantined segment. The segment is not read: it may be damaged.
func request(s *Settings, out io.Writer, arg segmentArg, action aggregate.Action, what string) error {
	_, state, err := arg.find(s)
	if err != nil {
		return err
	}
	if state != journal.StateQuarantined {
		return fmt.Errorf("segment %s is %s: only what is in quarantine can be settled by hand", arg.ID, state)
	}
	if err := aggregate.Request(s.path(journalDir), ulid.MustParse(arg.ID), action); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s %s: within seconds, or when the server next starts\n", arg.ID, what)
	return err
}
