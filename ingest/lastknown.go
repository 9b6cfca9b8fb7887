package ingest

import (
	"bytes"
	"context"
	"log/slog"
	"time"
)

// refreshPeriod is the time between two looks at a small table.
const refreshPeriod = 5 * time.Second

// lastKnown is a file, readable by its owner only, of what a small table held when it was last read: with it a server starts while
// ClickHouse is away.
type lastKnown struct {
	path    string
	written []byte
}

// openLastKnown reads the file; no file is no data.
func openLastKnown(path string) (*lastKnown, error) {
	data, err := readSecret(path)
	return &lastKnown{path: path, written: data}, err
}

// write replaces the file by data, unless that is what it holds.
func (f *lastKnown) write(data []byte) error {
	if bytes.Equal(data, f.written) {
		return nil
	}
	if err := writeSecret(f.path, data); err != nil {
		return err
	}
	f.written = data
	return nil
}

// keepRefreshed calls refresh every refreshPeriod until ctx ends. It logs when refreshing what begins to fail and when it works again.
func keepRefreshed(ctx context.Context, what string, log *slog.Logger, refresh func(context.Context) error) error {
	tick := time.NewTicker(refreshPeriod)
	defer tick.Stop()
	for failing := false; ; {
		err := refresh(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil && !failing:
			log.Warn("cannot refresh, the last known state is used", "what", what, "error", err)
			failing = true
		case err == nil && failing:
			log.Info("refreshed again", "what", what)
			failing = false
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
