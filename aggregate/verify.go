package aggregate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// VerifyConfig says what to verify.
type VerifyConfig struct {
	Conn     Conn      // its default database holds the tables
	From, To time.Time // UTC days, both included; the time of day is left out
	Site     string    // empty: all sites
	// Repair makes the rollups agree with the events. Only one repair may run at a time: the caller sees to that.
	Repair bool
	// Retention is for how many days a site keeps its events, where it does not keep them for ever. Older days are not verified.
	Retention map[string]int
	// Progress, if set, is called before each day.
	Progress func(day time.Time)

	patience time.Duration // for the buckets of a day and table that events keep arriving in, default 20 s
	now      func() time.Time
}

// Verification is what Verify found.
type Verification struct {
	From   string              `json:"from"`
	To     string              `json:"to"`
	Site   string              `json:"site,omitempty"`
	Tables []TableVerification `json:"tables"`
	// Buckets are those that differ, the first MostDifferences of them.
	Buckets []BucketDifference `json:"differences"`
	// Shortened are sites of which the range holds days beyond their retention, and the first day that was verified.
	Shortened map[string]string `json:"shortened,omitempty"`
}

// MostDifferences bounds Verification.Buckets.
const MostDifferences = 1000

// TableVerification adds up what was found in a rollup. A bucket is 15 minutes of a site.
type TableVerification struct {
	Table     string `json:"table"`
	Buckets   uint64 `json:"buckets"`   // compared
	Differing uint64 `json:"differing"` // buckets that differ
	Repaired  uint64 `json:"repaired"`  // buckets that differed and agree now
	Unsettled uint64 `json:"unsettled"` // buckets not judged, because events kept arriving in them or a batch of theirs is not stored
	Sums
}

// Sums is by how much rollup rows differ from the events.
type Sums struct {
	Rows     uint64 `json:"rows"`     // rows that differ
	Short    int64  `json:"short"`    // sum of n that the rollup lacks
	Over     int64  `json:"over"`     // sum of n that it has too much
	Visitors uint64 `json:"visitors"` // rows whose visitors differ
}

func (s *Sums) add(o Sums) {
	s.Rows, s.Short, s.Over, s.Visitors = s.Rows+o.Rows, s.Short+o.Short, s.Over+o.Over, s.Visitors+o.Visitors
}

// BucketDifference is a bucket of a site in which a rollup differs from the events.
type BucketDifference struct {
	Table    string    `json:"table"`
	Site     string    `json:"site"`
	Bucket   time.Time `json:"bucket"` // its begin, UTC
	Repaired bool      `json:"repaired"`
	Sums
}

// Differs reports whether a rollup differs from the events still.
func (v *Verification) Differs() bool {
	return slices.ContainsFunc(v.Tables, func(t TableVerification) bool { return t.Differing > t.Repaired })
}

// Verify compares the events with every rollup, a day and table at a time and large days in pieces, which bounds what the server needs,
// and repairs what differs if it is told to. It is right while events arrive.
//
// # Why it may compare while events arrive
//
// The tables that one INSERT fills are not filled at one moment, so a bucket that an INSERT is on its way into differs for a while. The
// ledger tells which buckets those are: a group's intent is in it before the group's first INSERT, and its stored entry only when no
// INSERT or repair of it runs any more. The ledger is read before a comparison and after it. A group that is there afterwards and was
// stored before had no INSERT running in between; the buckets that only such groups touch stood still, and what was found in them is
// true. The other buckets are compared again, alone, until they stand still as well or patience ends.
//
// # Why it may repair then
//
// Sums get the difference that was found while the bucket stood still. It is of events that are stored for good, so adding it is right
// whatever arrives afterwards, in any order. Sketches get the visitors of the events merged in, which is harmless at any time. Only
// another repair of the same bucket, which delivery makes after a failed INSERT, could make the same difference good a second time: so
// after each repair whatever delivery had running is waited for, and the bucket is compared once more. Verify believes a comparison
// only, never a repair.
//
// The ledger's times are the nodes', whose clocks must be within an hour of the server's.
//
// The error is an *UnverifiableError for a range of which the raw events are not there any more, in whole or in part.
func Verify(ctx context.Context, cfg VerifyConfig) (*Verification, error) {
	v, err := newVerifier(cfg)
	if err != nil {
		return nil, err
	}
	if err := v.checkRange(ctx); err != nil {
		return nil, err
	}
	if v.motion, err = watchMotion(ctx, v.conn, v.cfg.patience); err != nil {
		return nil, err
	}
	if err := v.awaitOlder(ctx, verifyIDPrefix); err != nil { // of a run that was cut off
		return nil, err
	}
	for day := v.cfg.From; !day.After(v.cfg.To); day = day.AddDate(0, 0, 1) {
		if v.cfg.Progress != nil {
			v.cfg.Progress(day)
		}
		if err := v.verifyDay(ctx, day); err != nil {
			return nil, fmt.Errorf("%s: %w", day.Format(time.DateOnly), err)
		}
	}
	return v.found, nil
}

// verifier is one run of Verify.
type verifier struct {
	cfg    VerifyConfig
	conn   Conn
	motion *motion
	found  *Verification
	// keptFrom is the first day of a site that is within its retention, where that is in the range or after it.
	keptFrom map[string]time.Time
}

func newVerifier(cfg VerifyConfig) (*verifier, error) {
	if cfg.Conn == nil {
		return nil, errors.New("verify needs a connection")
	}
	cfg.From, cfg.To = utcDay(cfg.From), utcDay(cfg.To)
	if cfg.To.Before(cfg.From) {
		return nil, fmt.Errorf("the range ends on %s, before it begins on %s", cfg.To.Format(time.DateOnly), cfg.From.Format(time.DateOnly))
	}
	cfg.patience = defaultTo(cfg.patience, 20*time.Second)
	if cfg.now == nil {
		cfg.now = time.Now
	}
	v := &verifier{cfg: cfg, conn: cfg.Conn, keptFrom: map[string]time.Time{}, found: &Verification{
		From: cfg.From.Format(time.DateOnly), To: cfg.To.Format(time.DateOnly), Site: cfg.Site, Buckets: []BucketDifference{},
	}}
	for _, r := range rollups {
		v.found.Tables = append(v.found.Tables, TableVerification{Table: r.table})
	}
	return v, nil
}

func utcDay(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// verifyDay compares a day of every table, a piece at a time.
func (v *verifier) verifyDay(ctx context.Context, day time.Time) error {
	pieces, err := v.pieces(ctx, day)
	if err != nil {
		return err
	}
	for i, r := range rollups {
		for _, p := range pieces {
			if err := v.verifyPiece(ctx, r, p, &v.found.Tables[i]); err != nil {
				return fmt.Errorf("%s: %w", r.table, err)
			}
		}
	}
	return nil
}

// verifyPiece compares a piece of a table, repairs it if asked to, and books the result.
func (v *verifier) verifyPiece(ctx context.Context, r rollup, p piece, t *TableVerification) error {
	c, err := v.compareSettled(ctx, r, p, nil)
	if err != nil {
		return err
	}
	left := c.differing
	if v.cfg.Repair && len(left) > 0 {
		if left, err = v.repair(ctx, r, p, c.differing); err != nil {
			return fmt.Errorf("repair: %w", err)
		}
	}
	t.Buckets += c.compared
	t.Unsettled += uint64(len(c.unsettled))
	for _, key := range sortedBuckets(c.differing) {
		_, still := left[key]
		t.Differing++
		if !still {
			t.Repaired++
		}
		found := c.differing[key]
		t.add(found.Sums)
		if len(v.found.Buckets) < MostDifferences {
			v.found.Buckets = append(v.found.Buckets, BucketDifference{
				Table: r.table, Site: key.site, Bucket: time.Unix(int64(key.bucket), 0).UTC(), Repaired: !still, Sums: found.Sums,
			})
		}
	}
	return nil
}

func sortedBuckets[V any](m map[bucketKey]V) []bucketKey {
	keys := make([]bucketKey, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b bucketKey) int {
		if a.bucket != b.bucket {
			return int(int64(a.bucket) - int64(b.bucket))
		}
		return strings.Compare(a.site, b.site)
	})
	return keys
}

// Every statement that writes for a repair has a query id with this prefix, so that a later run sees one that was left behind.
const (
	deliveryIDPrefix = "pagetally-"
	verifyIDPrefix   = "pagetally-verify-"
)

func verifyQueryID() string { return verifyIDPrefix + ulid.Make().String() }
