package ingest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"go.uber.org/goleak"

	"github.com/pagetally/pagetally/schema"
	"github.com/pagetally/pagetally/schema/embedded/embeddedtest"
)

func openSalts(t *testing.T, path string, now *time.Time, node string, conn driver.Conn) *Salts {
	t.Helper()
	s, err := OpenSalts(SaltsConfig{Path: path, Node: node, Conn: conn, Now: func() time.Time { return *now }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustSalt(t *testing.T, s *Salts, day Day) [16]byte {
	t.Helper()
	value, err := s.For(day)
	if err != nil || value == [16]byte{} {
		t.Fatalf("salt of %s: %x, %v", day, value, err)
	}
	return value
}

func TestSaltsServeAllZones(t *testing.T) {
	now := time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC)
	s := openSalts(t, filepath.Join(t.TempDir(), "salts"), &now, "n1", nil)
	for hour := range 48 {
		at := now.Add(time.Duration(hour) * time.Hour)
		now := at
		s.cfg.Now = func() time.Time { return now }
		for offset := -12; offset <= 14; offset++ {
			mustSalt(t, s, dayOf(at.UnixMilli(), time.FixedZone("", offset*3600)))
		}
	}
}

func TestSaltsLive48Hours(t *testing.T) {
	path := filepath.Join(t.TempDir(), "salts")
	now := time.Date(2025, 3, 1, 10, 0, 0, 0, time.UTC)
	today := dayOf(now.UnixMilli(), time.UTC)
	s := openSalts(t, path, &now, "n1", nil)
	first := mustSalt(t, s, today)
	if first == mustSalt(t, s, today+1) {
		t.Error("two days share a salt")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file of salts: %v, %v, want mode 0600", info, err)
	}

	// A restart, two days later than the day began but one minute, finds it again.
	now = time.Date(2025, 3, 2, 23, 59, 0, 0, time.UTC)
	s = openSalts(t, path, &now, "n1", nil)
	if got := mustSalt(t, s, today); got != first {
		t.Errorf("after a restart the salt is %x, want %x", got, first)
	}
	tomorrow := mustSalt(t, s, today+2)
	now = now.Add(time.Minute)
	if err := s.Rotate(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.For(today); !errors.Is(err, ErrSaltGone) {
		t.Errorf("after 48 hours: %v, want ErrSaltGone", err)
	}
	if got := mustSalt(t, s, today+2); got != tomorrow {
		t.Error("rotating has changed a salt")
	}
	if _, err := s.For(today + 30); !errors.Is(err, ErrNoSalt) {
		t.Errorf("a day far ahead: %v, want ErrNoSalt", err)
	}
}

func TestSaltsNeedTheDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2025, 3, 1, 10, 0, 0, 0, time.UTC)
	s := openSalts(t, filepath.Join(dir, "salts"), &now, "n1", nil)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	now = now.AddDate(0, 0, 5) // no salt made ahead reaches here
	if _, err := s.For(dayOf(now.UnixMilli(), time.UTC)); !errors.Is(err, ErrNoSalt) {
		t.Errorf("without a disk: %v, want ErrNoSalt", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	mustSalt(t, s, dayOf(now.UnixMilli(), time.UTC))
}

func TestSaltsRefuseABadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "salts")
	for _, content := range []string{"x\n", `{"day":"2025-03-01","salt":"00"}`, `{"day":"soon","salt":"00000000000000000000000000000000"}`} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenSalts(SaltsConfig{Path: path}); err == nil {
			t.Errorf("%q is taken for salts", content)
		}
	}
}

func TestSaltsAreMadeAheadByRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "salts")
	synctest.Test(t, func(t *testing.T) {
		defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
		s, err := OpenSalts(SaltsConfig{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(24*time.Hour + saltPeriod)
		synctest.Wait()
		_, last := s.window()
		if _, ok := (*s.days.Load())[last]; !ok {
			t.Error("a day later the salt of two days ahead is missing")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// migrated is a fresh database with all tables.
func migrated(t *testing.T) driver.Conn {
	t.Helper()
	conn := embeddedtest.Shared(t).Database(t)
	if _, err := schema.Migrate(t.Context(), conn, schema.Options{}); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestSaltsAreShared(t *testing.T) {
	conn := migrated(t)
	dir := t.TempDir()
	now := time.Now().UTC()
	later := now.Add(time.Second)
	day := dayOf(now.UnixMilli(), time.UTC)
	first := openSalts(t, filepath.Join(dir, "1"), &now, "n1", conn)
	second := openSalts(t, filepath.Join(dir, "2"), &later, "n2", conn)
	want := mustSalt(t, first, day)
	if mustSalt(t, second, day) == want {
		t.Fatal("two nodes made the same salt")
	}
	// The second publishes before the first: the earlier salt counts all the same.
	for _, s := range []*Salts{second, first, second, first} {
		if err := s.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for d := day - daysBack; d <= day+daysAhead; d++ {
		if a, b := mustSalt(t, first, d), mustSalt(t, second, d); a != b {
			t.Errorf("salts of %s differ: %x and %x", d, a, b)
		}
	}
	if got := mustSalt(t, second, day); got != want {
		t.Errorf("shared salt is %x, want the earliest, %x", got, want)
	}
	second = openSalts(t, filepath.Join(dir, "2"), &later, "n2", nil)
	if got := mustSalt(t, second, day); got != want {
		t.Error("an adopted salt is forgotten at a restart")
	}
}
