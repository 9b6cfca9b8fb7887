package aggregate

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pagetally/pagetally/schema"
)

// verifyNoon is in a day that the tests' events lie in.
var verifyNoon = time.Date(2025, 3, 9, 12, 1, 0, 0, time.UTC)

// stored delivers events of two sites over two days, some of many visitors so that sketches have grown.
func (r *rig) stored() {
	r.t.Helper()
	for i := range 600 {
		e := r.event()
		e.TS = verifyNoon.Add(time.Duration(i%3) * 20 * time.Hour / 2).UnixMilli()
		e.Visitor = 1 + r.random.Uint64N(5000)
		e.Name = []string{schema.PageView, "signup", "engagement"}[i%3]
		e.Site = []string{"example.com", "other.example"}[i%2]
		r.append(e)
	}
	r.seal()
	r.deliver()
}

func (r *rig) verify(change ...func(*VerifyConfig)) *Verification {
	r.t.Helper()
	cfg := VerifyConfig{Conn: r.conn, From: verifyNoon, To: verifyNoon.AddDate(0, 0, 1), patience: 5 * time.Second}
	for _, f := range change {
		f(&cfg)
	}
	found, err := Verify(r.t.Context(), cfg)
	if err != nil {
		r.t.Fatalf("verify: %v", err)
	}
	return found
}

func repairing(c *VerifyConfig) { c.Repair = true }

// requireClean wants every rollup to agree, in a number of buckets that is not nothing.
func (r *rig) requireClean(v *Verification) {
	r.t.Helper()
	for _, t := range v.Tables {
		if t.Differing != 0 || t.Unsettled != 0 || t.Buckets == 0 {
			r.t.Errorf("%+v, want agreement: %+v", t, v.Buckets)
		}
	}
}

func TestVerifyFindsAndRepairs(t *testing.T) {
	const where = ` WHERE site = 'example.com' AND name = 'pageview' AND bucket = toDateTime('2025-03-09 12:00:00', 'UTC')`
	const ofPath = ` WHERE site = 'example.com' AND dimension = 'path' AND kind = 'pageview' AND bucket = toDateTime('2025-03-09 12:00:00', 'UTC')`
	onePath := ofPath + ` AND value = (SELECT min(value) FROM dimensions` + ofPath + `)`
	onePage := where + ` AND path_key = (SELECT min(path_key) FROM views` + where + `)`
	const sync = ` SETTINGS mutations_sync = 2`
	tests := []struct {
		name, breaks, table string
		rows, visitors      uint64
		short, over         bool
	}{
		{"views added", `INSERT INTO views SELECT site, name, bucket, '/zzz', job, 5 FROM views` + where + ` LIMIT 1`, "views", 1, 0, false, true},
		{"views removed", `ALTER TABLE views DELETE` + onePage + sync, "views", 1, 0, true, false},
		{"views doubled", `INSERT INTO views SELECT * FROM views` + onePage, "views", 1, 0, false, true},
		{"visitors added", `INSERT INTO visitors SELECT site, 'never', bucket, job, 5, uniqCombined64State(17)(toUInt64(1152921504606846976)) FROM visitors` + where + ` GROUP BY ALL`, "visitors", 1, 1, false, true},
		{"visitors removed", `ALTER TABLE visitors DELETE` + where + sync, "visitors", 1, 1, true, false},
		{"visitors doubled", `INSERT INTO visitors SELECT * FROM visitors` + where, "visitors", 1, 0, false, true},
		{"visitors forgotten", `ALTER TABLE visitors UPDATE visitors = arrayReduce('uniqCombined64State(17)', emptyArrayUInt64())` + where + sync, "visitors", 1, 1, false, false},
		{"stranger among visitors", `INSERT INTO visitors SELECT site, name, bucket, job, 0, uniqCombined64State(17)(toUInt64(1152921504606846976)) FROM visitors` + where + ` GROUP BY ALL`, "visitors", 1, 1, false, false},
		{"dimensions added", `INSERT INTO dimensions SELECT site, dimension, kind, bucket, '/zzz', job, 5, uniqCombined64State(15)(toUInt64(0)) FROM dimensions` + onePath + ` GROUP BY ALL`, "dimensions", 1, 1, false, true},
		{"dimensions removed", `ALTER TABLE dimensions DELETE` + onePath + sync, "dimensions", 1, 1, true, false},
		{"dimensions doubled", `INSERT INTO dimensions SELECT * FROM dimensions` + onePath, "dimensions", 1, 0, false, true},
		{"dimensions forgotten", `ALTER TABLE dimensions UPDATE visitors = arrayReduce('uniqCombined64State(15)', emptyArrayUInt64())` + onePath + sync, "dimensions", 1, 1, false, false},
	}
	r := newRig(t)
	r.stored()
	r.requireClean(r.verify())
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			r.exec(tt.breaks)
			found := r.verify()
			for _, table := range found.Tables {
				if table.Table != tt.table {
					if table.Differing != 0 {
						t.Errorf("%s differs: %+v", table.Table, table)
					}
					continue
				}
				if table.Differing != 1 || table.Rows != tt.rows || table.Visitors != tt.visitors || (table.Short > 0) != tt.short || (table.Over > 0) != tt.over {
					t.Errorf("found %+v, want %+v", table, tt)
				}
			}
			if !found.Differs() || len(found.Buckets) != 1 || found.Buckets[0].Table != tt.table || found.Buckets[0].Site != "example.com" ||
				!found.Buckets[0].Bucket.Equal(verifyNoon.Truncate(15*time.Minute)) {
				t.Errorf("named %+v, want the bucket of noon of %s", found.Buckets, tt.table)
			}
			if repaired := r.verify(repairing); repaired.Differs() || len(repaired.Buckets) != 1 || !repaired.Buckets[0].Repaired {
				t.Errorf("not repaired: %+v %+v", repaired.Tables, repaired.Buckets)
			}
		})
	}
	r.t = t
	r.requireClean(r.verify())
}

// TestVerifyMissesNoZeroSum: rows that add up to nothing vanish from views when parts merge, which is no difference.
func TestVerifyMissesNoZeroSum(t *testing.T) {
	r := newRig(t)
	e := r.event()
	e.TS = verifyNoon.UnixMilli()
	r.append(e)
	for _, n := range []int64{7, -7} {
		e.N, e.Path = n, "/taken-back"
		r.append(e)
	}
	r.seal()
	r.deliver()
	r.exec(`OPTIMIZE TABLE views FINAL`)
	var rows uint64
	if r.scan(`SELECT count() FROM views`, &rows); rows != 1 {
		t.Fatalf("%d rows of views, want the zero sum gone", rows)
	}
	r.requireClean(r.verify())
}

// TestVerifyWhileEventsArrive repairs the very buckets that events are being counted in, while some INSERTs fail half way, so that
// delivery mends the same buckets.
func TestVerifyWhileEventsArrive(t *testing.T) {
	r := newRig(t)
	r.count(r.event(), r.event())
	r.seal()
	r.deliver()
	w := newWire(t, r.server.Options(r.db).Addr[0])
	_, stop := r.start(func(c *Config) { c.Conn = r.connect(w.listener.Addr().String()) })
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-time.After(time.Second): // as the journal seals
			}
			for range 20 {
				r.count(r.event())
			}
			if i%3 == 0 {
				w.cutAfter.Store(12_000) // within the block, or behind it
			}
			r.seal()
		}
	})
	now := func(c *VerifyConfig) {
		c.From, c.To, c.patience = time.Now().AddDate(0, 0, -1), time.Now().AddDate(0, 0, 1), time.Minute
	}
	differed := uint64(0)
	for i := range 3 {
		for _, table := range []string{"views", "visitors", "dimensions"} {
			r.exec(`INSERT INTO ` + table + ` SELECT * FROM ` + table + ` LIMIT 3`)
		}
		r.exec(`ALTER TABLE visitors UPDATE visitors = arrayReduce('uniqCombined64State(17)', emptyArrayUInt64()) WHERE 1 SETTINGS mutations_sync = 2`)
		found := r.verify(now, repairing)
		for _, table := range found.Tables {
			if table.Differing != table.Repaired || table.Unsettled > 0 {
				t.Errorf("round %d: %+v", i, table)
			}
			differed += table.Differing
		}
	}
	if differed == 0 {
		t.Error("nothing was left to repair: delivery mended it all")
	}
	found := r.verify(now)
	if found.Differs() {
		t.Errorf("differs after the repairs: %+v", found.Buckets)
	}
	close(done)
	wg.Wait()
	r.eventually("delivery", func() bool { return r.journal.Stats().SealedSegments == 0 })
	stop()
	if w.cuts.Load() == 0 {
		t.Error("no INSERT was cut off")
	}
	r.requireExact()
	r.requireClean(r.verify(now))
}

// TestVerifyLeavesOpenBatchesAlone: a batch that is announced and not stored may be in one table and not yet in another.
func TestVerifyLeavesOpenBatchesAlone(t *testing.T) {
	r := newRig(t)
	r.stored()
	r.exec(`INSERT INTO ledger (batch, state, at, touched, oldest) VALUES ('OPEN', 'intent', now64(3) - INTERVAL 3 DAY, [('example.com', '2025-03-09')], now64(3))`)
	r.exec(`INSERT INTO views SELECT * FROM views`)
	found := r.verify(repairing, func(c *VerifyConfig) { c.patience = time.Millisecond })
	views := found.Tables[0]
	if views.Unsettled == 0 || views.Repaired == 0 || views.Repaired != views.Differing {
		t.Errorf("%+v, want buckets that are not settled and others repaired", views)
	}
	for _, b := range found.Buckets {
		if b.Site == "example.com" && b.Bucket.Day() == 9 {
			t.Errorf("judged while a batch was open: %+v", b)
		}
	}
	r.exec(`INSERT INTO ledger (batch, state, at, touched, oldest) VALUES ('OPEN', 'stored', now64(3), [('example.com', '2025-03-09')], now64(3))`)
	r.verify(repairing)
	r.requireClean(r.verify())
}

// TestVerifyWaitsForOpenBatches: an INSERT that is half done for longer than a comparison takes is no difference, and not repaired.
func TestVerifyWaitsForOpenBatches(t *testing.T) {
	r := newRig(t)
	r.stored()
	const entry = `INSERT INTO ledger (batch, state, at, touched, oldest) VALUES ('OPEN', '%s', now64(3), [('example.com', '2025-03-09')], now64(3) - INTERVAL 1 HOUR)`
	r.exec(fmt.Sprintf(entry, "intent"))
	r.exec(`CREATE TABLE late AS views ENGINE = Memory`)
	r.exec(`INSERT INTO late SELECT * FROM views WHERE site = 'example.com' AND toDate(bucket) = '2025-03-09' LIMIT 1`)
	r.exec(`ALTER TABLE views DELETE WHERE (site, name, bucket, path_key) IN (SELECT site, name, bucket, path_key FROM late) SETTINGS mutations_sync = 2`)
	var wg sync.WaitGroup
	wg.Go(func() {
		time.Sleep(storedWithin + 500*time.Millisecond)
		r.exec(`INSERT INTO views SELECT * FROM late`)
		r.exec(fmt.Sprintf(entry, "stored"))
	})
	found := r.verify(repairing)
	wg.Wait()
	r.requireClean(found)
	r.requireClean(r.verify())
}

func TestMotionNamesTheBucketsThatMoved(t *testing.T) {
	r := newRig(t)
	r.stored()
	day := utcDay(verifyNoon)
	m, err := watchMotion(t.Context(), r.conn, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	before, err := m.groups(t.Context(), day)
	if err != nil {
		t.Fatal(err)
	}
	at := func(hour int) bucketKey {
		return bucketKey{"example.com", uint32(day.Add(time.Duration(hour) * time.Hour).Unix())}
	}
	if moved, err := m.since(t.Context(), day, before); err != nil || moved.has(at(12)) || moved.has(at(22)) {
		t.Errorf("moved %+v, %v, want nothing", moved, err)
	}
	e := r.event()
	e.TS = verifyNoon.UnixMilli()
	r.append(e)
	r.seal()
	r.deliver()
	if moved, err := m.since(t.Context(), day, before); err != nil || !moved.has(at(12)) || moved.has(at(22)) {
		t.Errorf("moved %+v, %v, want noon alone", moved, err)
	}
}

func TestVerifyRefusesRangesWithoutEvents(t *testing.T) {
	r := newRig(t)
	r.stored()
	for _, month := range []time.Month{1, 2} {
		e := r.event()
		e.TS = time.Date(2025, month, 15, 0, 0, 0, 0, time.UTC).UnixMilli()
		r.append(e)
	}
	r.seal()
	r.deliver()
	year := func(c *VerifyConfig) {
		c.From, c.To = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2025, 3, 31, 0, 0, 0, 0, time.UTC)
	}
	tests := []struct {
		name, drop, want string
		change           func(*VerifyConfig)
	}{
		{"retention", "", "what can be verified is 2025-03-12 to 2025-03-31", func(c *VerifyConfig) {
			c.Site, c.Retention = "example.com", map[string]int{"example.com": 30}
			c.now = func() time.Time { return time.Date(2025, 4, 10, 1, 0, 0, 0, time.UTC) }
		}},
		{"a month dropped", "202502", "on 2025-02-15: what can be verified is 2025-01-01 to 2025-02-14, 2025-02-16 to 2025-03-31", nil},
		{"the first months dropped", "202501", "what can be verified is 2025-01-01 to 2025-01-14, 2025-01-16 to 2025-02-14, 2025-02-16 to 2025-03-31", nil},
		{"all dropped", "202503", "2025-03-09", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.drop != "" {
				r.exec(`ALTER TABLE events DROP PARTITION ` + tt.drop)
			}
			cfg := VerifyConfig{Conn: r.conn, Repair: true}
			year(&cfg)
			if tt.change != nil {
				tt.change(&cfg)
			}
			_, err := Verify(t.Context(), cfg)
			var unverifiable *UnverifiableError
			if !errors.As(err, &unverifiable) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
	var views int64
	if r.scan(`SELECT sum(n) FROM views`, &views); views != 602 {
		t.Errorf("%d views, want 602 untouched", views)
	}
}

// TestVerifyLeavesOutWhatASiteDoesNotKeep: other sites can be verified all the same.
func TestVerifyLeavesOutWhatASiteDoesNotKeep(t *testing.T) {
	r := newRig(t)
	r.stored()
	r.exec(`INSERT INTO views SELECT * FROM views`)
	r.exec(`ALTER TABLE events DELETE WHERE site = 'other.example' AND toDate(ts) = '2025-03-09' SETTINGS mutations_sync = 2`)
	found := r.verify(repairing, func(c *VerifyConfig) {
		c.Retention = map[string]int{"other.example": 30, "example.com": 4000}
		c.now = func() time.Time { return time.Date(2025, 4, 8, 1, 0, 0, 0, time.UTC) }
	})
	if found.Shortened["other.example"] != "2025-03-10" || len(found.Shortened) != 1 {
		t.Errorf("shortened %v", found.Shortened)
	}
	for _, b := range found.Buckets {
		if b.Site == "other.example" && b.Bucket.Day() == 9 || !b.Repaired {
			t.Errorf("unexpected %+v", b)
		}
	}
	got := r.sums(`SELECT concat(site, ' ', toString(toDate(bucket))), sum(n) FROM views GROUP BY 1`)
	want := map[string]int64{"example.com 2025-03-09": 200, "other.example 2025-03-09": 400, "example.com 2025-03-10": 100, "other.example 2025-03-10": 100}
	for day, n := range want {
		if got[day] != n {
			t.Errorf("%s: %d views, want %d", day, got[day], n)
		}
	}
}

func TestLargeDaysAreCut(t *testing.T) {
	day := utcDay(verifyNoon)
	for rows, want := range map[uint64]int{0: 1, rowsAtOnce - 1: 1, rowsAtOnce: 2, 10 * rowsAtOnce: 12, 1000 * rowsAtOnce: 96} {
		pieces := cutDay(day, rows)
		if len(pieces) != want {
			t.Errorf("%d rows: %d pieces, want %d", rows, len(pieces), want)
		}
		at := day
		for _, p := range pieces {
			if !p.from.Equal(at) || !p.from.Equal(p.from.Truncate(bucketLength)) || !p.to.After(p.from) {
				t.Errorf("%d rows: piece %v to %v, want it to begin at %v", rows, p.from, p.to, at)
			}
			at = p.to
		}
		if !at.Equal(day.AddDate(0, 0, 1)) {
			t.Errorf("%d rows: ends at %v", rows, at)
		}
	}
}

func TestPortionsHoldEveryBucketOnce(t *testing.T) {
	left, want := map[bucketKey]bucketState{}, 0
	for i := range 3 * mostNamed {
		state := bucketState{Sums: Sums{Rows: 10}}
		if i%1000 == 0 {
			state.Rows = mostMended + 1
		}
		left[bucketKey{"example.com", uint32(i) * 900}] = state
		want++
	}
	seen := bucketSet{}
	for _, portion := range portions(left) {
		var rows uint64
		for _, key := range portion {
			seen[key] = struct{}{}
			rows += left[key].Rows
		}
		if len(portion) > mostNamed || len(portion) > 1 && rows > mostMended {
			t.Errorf("a portion of %d buckets and %d rows", len(portion), rows)
		}
	}
	if len(seen) != want {
		t.Errorf("%d buckets in portions, want %d", len(seen), want)
	}
}

// What was built of a day is old once the day was repaired, and only then.
func TestRepairMakesBuildsOld(t *testing.T) {
	r := newRig(t)
	r.stored()
	changes := func() (sum uint64) {
		r.scan(`SELECT sum(changes) FROM touched WHERE site = 'example.com' AND day = '2025-03-09'`, &sum)
		return sum
	}
	before := changes()
	r.verify(repairing)
	if got := changes(); got != before || before == 0 {
		t.Errorf("%d changes after nothing was repaired, want %d", got, before)
	}
	r.exec(`INSERT INTO views SELECT * FROM views WHERE site = 'example.com' AND toDate(bucket) = '2025-03-09' LIMIT 3`)
	r.verify(repairing)
	r.requireClean(r.verify())
	if got := changes(); got < before+2 {
		t.Errorf("%d changes after a repair, want at least %d", got, before+2)
	}
}

// TestVerifySeesTheLastSecond: compared with a time in whole seconds, the engine's index takes a time in milliseconds for its second and
// leaves out the marks that lie within the one before the end. So many events in it are several marks.
func TestVerifySeesTheLastSecond(t *testing.T) {
	r := newRig(t)
	const frames, each = 20, 1000
	last := time.Date(2025, 3, 9, 23, 59, 59, 0, time.UTC).UnixMilli()
	for i := range frames {
		var payload []byte
		for j := range each {
			e := r.event()
			e.TS, e.PathKey = last+int64(i*each+j)%1000, e.Path
			payload = e.AppendTo(payload)
			r.want[e.Path] += e.N
		}
		if _, err := r.journal.Append(t.Context(), payload, each); err != nil {
			t.Fatal(err)
		}
	}
	r.seal()
	r.deliver()
	r.requireClean(r.verify())
	r.verify(repairing)
	r.requireExact()
}
