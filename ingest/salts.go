package ingest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Errors of SaltSource.For.
var (
	ErrNoSalt   = errors.New("no salt for the day")     // none could be made durable
	ErrSaltGone = errors.New("salt of the day is gone") // the day is too long past
)

// Days around the UTC day for which salts are kept: yesterday is still today at UTC-12, and days ahead are made early so that
// neither a missing ClickHouse nor a full disk at midnight does harm. A salt is dropped 48 hours after its day began in UTC.
const (
	daysBack  = 1
	daysAhead = 2
)

const saltPeriod = time.Minute // between looks at the clock and at ClickHouse

// SaltsConfig is what Salts need.
type SaltsConfig struct {
	Path string           // of the file, in the journal's folder
	Conn driver.Conn      // whose default database has the table salts; nil: this node keeps its salts to itself
	Node string           // this node's id
	Now  func() time.Time // the clock; time.Now when nil
	Log  *slog.Logger
}

// Salts keeps one random 16-byte salt for each calendar day in a file, and agrees on it with other nodes by the table salts: of two
// salts of a day the one made first counts. For is safe for concurrent use and does no I/O while the day is known.
type Salts struct {
	cfg SaltsConfig

	days atomic.Pointer[map[Day]salt]
	mu   sync.Mutex // held by whoever replaces days
	down bool       // ClickHouse was not there at the last sync; Run's only
}

type salt struct {
	value     [16]byte
	createdAt time.Time // to the millisecond
	published bool      // is in ClickHouse
}

// OpenSalts reads the file and makes the salts of the days around now, on disk when it returns.
func OpenSalts(cfg SaltsConfig) (*Salts, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	data, err := readSecret(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("read salts: %w", err)
	}
	days, err := decodeSalts(data)
	if err != nil {
		return nil, fmt.Errorf("read salts %s: %w", cfg.Path, err)
	}
	s := &Salts{cfg: cfg}
	s.days.Store(&days)
	return s, s.Rotate()
}

// For returns the salt of a day, making it durable first when it is new; ErrNoSalt when that fails, ErrSaltGone for a past day.
func (s *Salts) For(day Day) ([16]byte, error) {
	if salt, ok := (*s.days.Load())[day]; ok {
		return salt.value, nil
	}
	first, last := s.window()
	switch {
	case day < first:
		return [16]byte{}, ErrSaltGone
	case day > last:
		return [16]byte{}, fmt.Errorf("%w: %s lies ahead", ErrNoSalt, day)
	}
	if err := s.Rotate(); err != nil {
		return [16]byte{}, errors.Join(ErrNoSalt, err)
	}
	return (*s.days.Load())[day].value, nil
}

// window is the first and the last day that have a salt now.
func (s *Salts) window() (first, last Day) {
	today := dayOf(s.cfg.Now().UnixMilli(), time.UTC)
	return today - daysBack, today + daysAhead
}

// Rotate drops salts of days past and makes those ahead. They count once they are on disk.
func (s *Salts) Rotate() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	days := maps.Clone(*s.days.Load())
	first, last := s.window()
	maps.DeleteFunc(days, func(d Day, _ salt) bool { return d < first || d > last })
	changed := len(days) != len(*s.days.Load())
	for d := first; d <= last; d++ {
		if _, ok := days[d]; ok {
			continue
		}
		fresh := salt{createdAt: s.cfg.Now().UTC().Truncate(time.Millisecond)}
		_, _ = rand.Read(fresh.value[:]) // never fails: the runtime ends the process first
		days[d], changed = fresh, true
	}
	if !changed {
		return nil
	}
	return s.replaceLocked(days)
}

// replaceLocked writes days to the file, then uses them.
func (s *Salts) replaceLocked(days map[Day]salt) error {
	if err := writeSecret(s.cfg.Path, encodeSalts(days)); err != nil {
		return fmt.Errorf("write salts: %w", err)
	}
	s.days.Store(&days)
	return nil
}

// Run makes salts ahead and agrees on them with ClickHouse until ctx ends.
func (s *Salts) Run(ctx context.Context) error {
	tick := time.NewTicker(saltPeriod)
	defer tick.Stop()
	for {
		if err := s.Rotate(); err != nil {
			s.cfg.Log.Error("salts cannot be made", "error", err)
		}
		s.syncAndLog(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func (s *Salts) syncAndLog(ctx context.Context) {
	err := s.Sync(ctx)
	switch {
	case ctx.Err() != nil:
	case err != nil && !s.down:
		s.down = true
		s.cfg.Log.Warn("salts cannot be shared, this node's own are used", "error", err)
	case err == nil && s.down:
		s.down = false
		s.cfg.Log.Info("salts are shared again")
	}
}

// saltRecord is a line of the file.
type saltRecord struct {
	Day       string    `json:"day"`
	Salt      string    `json:"salt"`
	CreatedAt time.Time `json:"created_at"`
	Published bool      `json:"published"`
}

// encodeSalts writes a JSON line for each day, in order.
func encodeSalts(days map[Day]salt) []byte {
	var b []byte
	for _, d := range slices.Sorted(maps.Keys(days)) {
		one := days[d]
		line, err := json.Marshal(saltRecord{d.String(), hex.EncodeToString(one.value[:]), one.createdAt, one.published})
		if err != nil {
			panic(err) // strings, a time within range and a bool always marshal
		}
		b = append(append(b, line...), '\n')
	}
	return b
}

func decodeSalts(data []byte) (map[Day]salt, error) {
	days := make(map[Day]salt)
	for _, line := range lines(string(data)) {
		var r saltRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return nil, err
		}
		day, err := parseDay(r.Day)
		if err != nil {
			return nil, err
		}
		s := salt{createdAt: r.CreatedAt, published: r.Published}
		if s.value, err = parseSalt(r.Salt); err != nil {
			return nil, err
		}
		days[day] = s
	}
	return days, nil
}

func parseDay(s string) (Day, error) {
	t, err := time.Parse(time.DateOnly, s)
	return dayOf(t.UnixMilli(), time.UTC), err
}

func parseSalt(s string) (value [16]byte, err error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(value) {
		return value, errors.New("salt is not 16 bytes in hex")
	}
	return [16]byte(b), nil
}
