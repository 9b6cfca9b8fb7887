package query

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/pagetally/pagetally/schema"
)

// ErrBusy is returned when too many questions are being answered already; the asker may try again soon.
var ErrBusy = errors.New("too many queries at once")

// ErrTooExpensive is returned for a question whose answer would take more time, memory or rows than one question may.
var ErrTooExpensive = errors.New("query exceeds its limits")

// InFlight knows what was acknowledged but is not in the tables yet.
type InFlight interface {
	// AsOf is the receive time of the oldest such event; the zero time when there is none.
	AsOf() time.Time
	// Pending is the number of such events.
	Pending() int64
}

// StoreConfig of a Store.
type StoreConfig struct {
	// Conn's default database holds the tables. Its user may change settings: the Store makes each of its queries read-only itself.
	Conn driver.Conn
	// InFlight may be nil where nothing is ever in flight.
	InFlight InFlight
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// MaxQueries bounds the statements running at once (default 8), Wait how long another one queues for its turn (default 2 s).
	MaxQueries int
	Wait       time.Duration
	// Timeout bounds one statement (default 30 s) and MaxMemory its memory in bytes (default 1 GiB).
	Timeout   time.Duration
	MaxMemory int64
}

// Store asks ClickHouse. It may be used by several goroutines.
type Store struct {
	cfg   StoreConfig
	slots chan struct{}
}

// NewStore checks cfg and fills in defaults; it asks nothing.
func NewStore(cfg StoreConfig) (*Store, error) {
	if cfg.Conn == nil {
		return nil, errors.New("query store: no connection")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.MaxQueries <= 0 {
		cfg.MaxQueries = 8
	}
	if cfg.Wait <= 0 {
		cfg.Wait = 2 * time.Second
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	if cfg.MaxMemory <= 0 {
		cfg.MaxMemory = 1 << 30
	}
	return &Store{cfg: cfg, slots: make(chan struct{}, cfg.MaxQueries)}, nil
}

// asOf is read before any table: what arrives in between only makes the answer newer than it says.
func (s *Store) asOf() time.Time {
	now := s.cfg.Now()
	if s.cfg.InFlight != nil {
		if oldest := s.cfg.InFlight.AsOf(); !oldest.IsZero() && oldest.Before(now) {
			return oldest
		}
	}
	return now
}

// each runs st and calls scan for every row.
func (s *Store) each(ctx context.Context, st statement, scan func(driver.Rows) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	if err := s.acquire(ctx); err != nil {
		return err
	}
	defer func() { <-s.slots }()

	rows, err := s.cfg.Conn.Query(clickhouse.Context(ctx, clickhouse.WithSettings(s.settings())), st.sql, st.args()...)
	if err != nil {
		return queryError(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return fmt.Errorf("scan row: %w", err)
		}
	}
	return queryError(rows.Err())
}

func (s *Store) acquire(ctx context.Context) error {
	wait := time.NewTimer(s.cfg.Wait)
	defer wait.Stop()
	select {
	case s.slots <- struct{}{}:
		return nil
	case <-wait.C:
		return ErrBusy
	case <-ctx.Done():
		return queryError(ctx.Err())
	}
}

// settings bound what one statement may cost and forbid it to write. A key of the rollups never spans two partitions, because its
// bucket decides both: FINAL may look at each month alone, and a month merged to one part costs nothing.
func (s *Store) settings() clickhouse.Settings {
	settings := schema.ExactSettings()
	maps.Copy(settings, clickhouse.Settings{
		"readonly":           1,
		"max_execution_time": int(s.cfg.Timeout.Seconds()) + 1,
		"max_memory_usage":   s.cfg.MaxMemory,
		"max_result_rows":    2 * MaxBars,
		"do_not_merge_across_partitions_select_final": 1,
	})
	return settings
}

func (st statement) args() []any {
	args := make([]any, len(st.params))
	for i, p := range st.params {
		args[i] = clickhouse.Named(p.name, p.value)
	}
	return args
}

// Codes of ClickHouse exceptions that say a limit was reached: time, rows, memory, result.
var limitCodes = map[int32]bool{158: true, 159: true, 160: true, 241: true, 307: true, 396: true}

func queryError(err error) error {
	if err == nil {
		return nil
	}
	var exception *clickhouse.Exception
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &exception) && limitCodes[exception.Code] {
		return fmt.Errorf("%w: %w", ErrTooExpensive, err)
	}
	return fmt.Errorf("query clickhouse: %w", err)
}
