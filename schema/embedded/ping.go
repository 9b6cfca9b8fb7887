package embedded

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// MinVersion is the oldest engine whose deduplication and settings the product is built on.
const MinVersion = "26.7"

const (
	pingPoll    = 50 * time.Millisecond
	pingTimeout = 5 * time.Second
)

// awaitPing asks the starting engine for its version until it answers, and makes the database. It fails with ErrTooOld,
// when the process ends, or when ctx is done.
func awaitPing(ctx context.Context, p *process, c Connection) (version string, err error) {
	for {
		version, err = ping(ctx, c)
		if err == nil || errors.Is(err, ErrTooOld) {
			return version, err
		}
		select {
		case <-p.exited:
			return "", fmt.Errorf("engine ended: %w", orNormalExit(p.err))
		case <-ctx.Done():
			return "", fmt.Errorf("no answer from engine: %w", err)
		case <-time.After(pingPoll):
		}
	}
}

var errNormalExit = errors.New("normal exit")

func orNormalExit(err error) error {
	if err == nil {
		return errNormalExit
	}
	return err
}

// ping connects as the writer to the database that is always there and prepares our own.
func ping(ctx context.Context, c Connection) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	conn, err := clickhouse.Open(&clickhouse.Options{
		Addr:        []string{c.Addr},
		Auth:        clickhouse.Auth{Database: "default", Username: c.User, Password: c.Password},
		DialTimeout: pingTimeout,
	})
	if err != nil {
		return "", fmt.Errorf("connect to engine: %w", err)
	}
	defer func() { _ = conn.Close() }()
	var version string
	if err := conn.QueryRow(ctx, "SELECT version()").Scan(&version); err != nil {
		return "", fmt.Errorf("ask engine's version: %w", err)
	}
	if err := checkVersion(version); err != nil {
		return "", err
	}
	// The name is checked to be plain; identifiers cannot be bound.
	if err := conn.Exec(ctx, "CREATE DATABASE IF NOT EXISTS "+c.Database); err != nil {
		return "", fmt.Errorf("make database: %w", err)
	}
	return version, nil
}

// checkVersion fails with ErrTooOld for anything older than MinVersion; a version it cannot read is too old.
func checkVersion(version string) error {
	got, want := majorMinor(version), majorMinor(MinVersion)
	if got[0] > want[0] || got[0] == want[0] && got[1] >= want[1] {
		return nil
	}
	return fmt.Errorf("%w: version %s, at least %s needed; %s", ErrTooOld, version, MinVersion, fetchAdvice)
}

// majorMinor reads the first two numbers of a version; what is no number counts as 0.
func majorMinor(version string) (numbers [2]int) {
	for i, part := range strings.SplitN(version, ".", 3) {
		if i < len(numbers) {
			_, _ = fmt.Sscan(part, &numbers[i])
		}
	}
	return numbers
}
