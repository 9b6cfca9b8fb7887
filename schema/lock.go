package schema

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// ErrLockLost is returned when another process took this one for dead and broke its lock. Run the migration again.
var ErrLockLost = errors.New("migration lock was taken over by another process")

// lockTable is the mutex: making a table fails when it is there, and that is the one step of ClickHouse that is sure to have a single
// winner. Its comment names the owner; its time of last change, by the server's clock, is the owner's last sign of life.
const lockTable = "migration_lock"

const (
	lockPoll = 250 * time.Millisecond
	// Error codes of ClickHouse.
	codeTableExists  = 57
	codeUnknownTable = 60
)

// holder is what the server knows of the lock.
type holder struct {
	owner string
	uuid  string
	age   time.Duration // since the last sign of life
}

// locked runs do under the lock. The context of do ends when the lock is lost.
func locked(ctx context.Context, conn driver.Conn, opts Options, do func(context.Context) error) error {
	owner := lockOwner()
	if err := acquire(ctx, conn, owner, opts); err != nil {
		return fmt.Errorf("lock migrations: %w", err)
	}
	held, cancel := context.WithCancelCause(ctx)
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		if err := beat(held, conn, owner, opts.StaleAfter/5); err != nil {
			cancel(err)
		}
	}()
	err := do(held)
	if cause := context.Cause(held); err != nil && errors.Is(cause, ErrLockLost) {
		err = errors.Join(cause, err)
	}
	cancel(nil)
	<-beating
	return errors.Join(err, release(context.WithoutCancel(ctx), conn, owner))
}

// lockOwner names this call in words a person can use: host, process and something that no other call has.
func lockOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	owner := fmt.Sprintf("%s pid %d call %s", host, os.Getpid(), rand.Text()[:8])
	return regexp.MustCompile(`[^A-Za-z0-9._ -]`).ReplaceAllString(owner, "_")
}

func acquire(ctx context.Context, conn driver.Conn, owner string, opts Options) error {
	other := "" // who was seen to hold it
	for {
		err := conn.Exec(ctx, "CREATE TABLE "+lockTable+" (nothing UInt8) ENGINE = Null COMMENT '"+owner+"'")
		if err == nil {
			return nil
		}
		if !hasCode(err, codeTableExists) {
			// The table may have been made all the same.
			return errors.Join(heldBy(ctx, other, err), release(context.WithoutCancel(ctx), conn, owner))
		}
		h, err := lockHolder(ctx, conn)
		switch {
		case err != nil:
			return heldBy(ctx, other, err)
		case h.owner == owner: // an earlier try of the driver made it and the answer was lost
			return nil
		case h.uuid == "": // released in between
			continue
		case h.age > opts.StaleAfter:
			if err := breakLock(ctx, conn, h); err != nil {
				return err
			}
			opts.Log.Warn("broke the lock of a migration that is gone", "owner", h.owner, "silent_for", h.age)
			continue
		case other != h.owner:
			other = h.owner
			opts.Log.Info("waiting for another migration", "owner", h.owner, "silent_for", h.age, "broken_after", opts.StaleAfter)
		}
		if err := wait(ctx, lockPoll); err != nil {
			return heldBy(ctx, other, err)
		}
	}
}

// heldBy names the owner that was waited for, if any. The driver gives the deadline of a context to its socket, so that a context that
// has run out may show as a time-out of a read a moment before it says so itself: that is told as what it is.
func heldBy(ctx context.Context, owner string, err error) error {
	if end, ok := ctx.Deadline(); ok && !time.Now().Before(end) && !errors.Is(err, context.DeadlineExceeded) {
		err = errors.Join(context.DeadlineExceeded, err)
	}
	if owner == "" {
		return err
	}
	return fmt.Errorf("held by %s: %w", owner, err)
}

// breakLock moves a stale lock out of the way. The new name belongs to that one lock, so that of several processes that saw it
// stale one succeeds, and none can move the lock that the winner takes next. What was moved stays as a trace; it holds nothing.
func breakLock(ctx context.Context, conn driver.Conn, h holder) error {
	err := conn.Exec(ctx, "RENAME TABLE "+lockTable+" TO "+lockTable+"_stale_"+strings.ReplaceAll(h.uuid, "-", ""))
	if hasCode(err, codeTableExists) || hasCode(err, codeUnknownTable) {
		return nil
	}
	return err
}

// beat shows a sign of life at every interval until ctx ends, and fails when the lock is not owner's any more.
func beat(ctx context.Context, conn driver.Conn, owner string, every time.Duration) error {
	for wait(ctx, every) == nil {
		h, err := lockHolder(ctx, conn)
		if err != nil {
			continue // the statement that runs meets the same trouble and reports it
		}
		if h.owner != owner {
			return ErrLockLost
		}
		_ = conn.Exec(ctx, "ALTER TABLE "+lockTable+" MODIFY COMMENT '"+owner+"'")
	}
	return nil
}

func release(ctx context.Context, conn driver.Conn, owner string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	h, err := lockHolder(ctx, conn)
	if err == nil && h.owner == owner {
		err = conn.Exec(ctx, "DROP TABLE "+lockTable)
	}
	if err != nil {
		return fmt.Errorf("release migration lock: %w", err)
	}
	return nil
}

func lockHolder(ctx context.Context, conn driver.Conn) (h holder, err error) {
	var seconds int64
	rows, err := conn.Query(ctx, `SELECT comment, toString(uuid), dateDiff('second', metadata_modification_time, now())
FROM system.tables WHERE database = currentDatabase() AND name = ?`, lockTable)
	if err != nil {
		return h, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := rows.Scan(&h.owner, &h.uuid, &seconds); err != nil {
			return h, err
		}
	}
	h.age = time.Duration(seconds) * time.Second
	return h, rows.Err()
}

func hasCode(err error, code int32) bool {
	var exception *clickhouse.Exception
	return errors.As(err, &exception) && exception.Code == code
}

// wait returns ctx's error when it ends before d has passed.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
