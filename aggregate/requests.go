package aggregate

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/oklog/ulid/v2"
)

// Action is what an operator wants done with a quarantined segment.
type Action string

// The actions.
const (
	ActionRetry Action = "retry" // deliver it again
	ActionDrop  Action = "drop"  // forget it for good
)

// requestsDir is a folder of the journal's directory in which any process may leave a request: an empty file ULID.retry or
// ULID.drop. A running node obeys within a second, a stopped one when it starts.
const requestsDir = "requests"

// Request asks the node that owns the journal in dir to act on a quarantined segment.
func Request(dir string, id ulid.ULID, action Action) error {
	folder := filepath.Join(dir, requestsDir)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("leave request: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, id.String()+"."+string(action)), nil, 0o600); err != nil {
		return fmt.Errorf("leave request: %w", err)
	}
	return nil
}

// ReadQuarantine reads the note beside a quarantined segment of the journal in dir. A damaged segment has none: fs.ErrNotExist.
func ReadQuarantine(dir string, id ulid.ULID) (Quarantine, error) {
	var q Quarantine
	content, err := os.ReadFile(filepath.Join(dir, decisionsDir, noteName(id)))
	if err != nil {
		return q, fmt.Errorf("read quarantine note: %w", err)
	}
	if err := json.Unmarshal(content, &q); err != nil {
		return q, fmt.Errorf("read quarantine note: %w", err)
	}
	return q, nil
}

// obeyRequests carries out what operators asked for. Each request may be carried out twice without harm.
func (d *Delivery) obeyRequests(ctx context.Context) error {
	folder := filepath.Join(d.journal.Dir(), requestsDir)
	files, err := os.ReadDir(folder)
	if err != nil {
		if os.IsNotExist(err) {
			return nil
		}
		return fmt.Errorf("list requests: %w", err)
	}
	for _, file := range files {
		if err := d.obey(ctx, file); err != nil {
			return fmt.Errorf("obey %s: %w", file.Name(), err)
		}
		if err := os.Remove(filepath.Join(folder, file.Name())); err != nil {
			return fmt.Errorf("remove request: %w", err)
		}
		d.unpark()
	}
	return nil
}

func (d *Delivery) obey(ctx context.Context, file fs.DirEntry) error {
	name, action, _ := strings.Cut(file.Name(), ".")
	id, err := ulid.ParseStrict(name)
	if err != nil || !d.quarantined[id] {
		d.log.Warn("a request names no quarantined segment", "request", file.Name())
		return nil
	}
	switch Action(action) {
	case ActionRetry:
		return d.releaseQuarantined(id)
	case ActionDrop:
		return d.dropQuarantined(ctx, id)
	}
	d.log.Warn("a request asks for nothing known", "request", file.Name())
	return nil
}
