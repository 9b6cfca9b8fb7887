package aggregate

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// motion tells from the ledger which buckets events are arriving in.
type motion struct {
	conn Conn
	// from is before the first entry that can be written from now on, by the clock of any node.
	from time.Time
	// open are the groups that were announced before from and may not be stored yet.
	open []string
	// patience is how long a group may be under way before it is taken for stuck: held back by its node, or left by one that is down.
	patience time.Duration
	seenOpen map[string]time.Time // when a group was first seen under way
}

// clockSkew is how far the clocks of the nodes and of the server may be apart.
const clockSkew = time.Hour

// watchMotion looks through the whole ledger once: a group may have been under way for long.
func watchMotion(ctx context.Context, conn Conn, patience time.Duration) (*motion, error) {
	m := &motion{conn: conn, open: []string{}, patience: patience, seenOpen: map[string]time.Time{}}
	if err := conn.QueryRow(ctx, `SELECT now64(3, 'UTC')`).Scan(&m.from); err != nil {
		return nil, fmt.Errorf("ask the time: %w", err)
	}
	m.from = m.from.Add(-clockSkew)
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"optimize_aggregation_in_order": 1}))
	rows, err := conn.Query(ctx, `SELECT batch FROM (SELECT batch, max(state = 'stored') AS stored FROM ledger GROUP BY batch) WHERE NOT stored`)
	if err != nil {
		return nil, fmt.Errorf("read open intents: %w", err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var batch string
		if err := rows.Scan(&batch); err != nil {
			return nil, fmt.Errorf("read open intents: %w", err)
		}
		m.open = append(m.open, batch)
	}
	return m, rows.Err()
}

// groupEntry is what the ledger says of a group.
type groupEntry struct {
	stored bool
	sites  []string  // that it touches on the day asked for
	oldest time.Time // receive time of its oldest row
}

// groups reads the groups that touch a day and may be under way, and others that were stored lately.
func (m *motion) groups(ctx context.Context, day time.Time) (map[string]groupEntry, error) {
	rows, err := m.conn.Query(ctx, `SELECT batch, max(state = 'stored') = 1, groupUniqArrayArray(arrayMap(t -> t.site, arrayFilter(t -> t.day = {day:Date}, touched))) AS sites, min(oldest)
FROM ledger WHERE at >= fromUnixTimestamp({from:Int64}) OR has({open:Array(String)}, batch)
GROUP BY batch HAVING notEmpty(sites)`,
		clickhouse.Named("day", day.Format(time.DateOnly)), clickhouse.Named("from", fmt.Sprint(m.from.Unix())), clickhouse.Named("open", m.open))
	if err != nil {
		return nil, fmt.Errorf("read ledger: %w", err)
	}
	defer func() { _ = rows.Close() }()
	groups := map[string]groupEntry{}
	for rows.Next() {
		var batch string
		var g groupEntry
		if err := rows.Scan(&batch, &g.stored, &g.sites, &g.oldest); err != nil {
			return nil, fmt.Errorf("read ledger: %w", err)
		}
		groups[batch] = g
	}
	return groups, rows.Err()
}

// moving says in which buckets rows may have arrived during some time.
type moving struct {
	sites   map[string]bool
	buckets bucketSet       // nil: any bucket of sites
	stuck   map[string]bool // sites with a group under way that will not be stored soon: all their buckets
}

func (m moving) has(key bucketKey) bool {
	if m.buckets == nil {
		return m.sites[key.site]
	}
	_, ok := m.buckets[key]
	return ok
}

const (
	// storedWithin is how long groups under way are given to be stored, so that their rows can be looked at.
	storedWithin = 2 * time.Second
	storedPoll   = 50 * time.Millisecond
)

// quiet reads the groups of a day like groups, and waits a while for a moment when none is under way but stuck ones: the time
// between two INSERTs is the best one to begin a comparison.
func (m *motion) quiet(ctx context.Context, day time.Time) (map[string]groupEntry, error) {
	for waited := time.Duration(0); ; waited += storedPoll {
		groups, err := m.groups(ctx, day)
		if err != nil || waited > storedWithin || !m.anyUnderWay(groups) {
			return groups, err
		}
		if err := pause(ctx, storedPoll); err != nil {
			return nil, err
		}
	}
}

// anyUnderWay reports whether a group is under way and not stuck.
func (m *motion) anyUnderWay(groups map[string]groupEntry) bool {
	for batch, g := range groups {
		if !g.stored && !m.isStuck(batch) {
			return true
		}
	}
	return false
}

// isStuck is asked of groups under way.
func (m *motion) isStuck(batch string) bool {
	first, seen := m.seenOpen[batch]
	if !seen {
		m.seenOpen[batch] = time.Now()
	}
	return seen && time.Since(first) > m.patience
}

// since says what moved since before was read: what groups touch that were not stored then.
func (m *motion) since(ctx context.Context, day time.Time, before map[string]groupEntry) (moving, error) {
	now, err := m.groups(ctx, day)
	if err != nil {
		return moving{}, err
	}
	moved := moving{sites: map[string]bool{}, stuck: map[string]bool{}}
	live := map[string]groupEntry{}
	var oldest time.Time
	for batch, g := range now {
		if before[batch].stored {
			continue
		}
		if !g.stored && m.isStuck(batch) {
			for _, site := range g.sites {
				moved.stuck[site] = true
			}
			continue
		}
		live[batch] = g
		for _, site := range g.sites {
			moved.sites[site] = true
		}
		if oldest.IsZero() || g.oldest.Before(oldest) {
			oldest = g.oldest
		}
	}
	if len(live) == 0 {
		return moved, nil
	}
	if stored, err := m.awaitStored(ctx, day, live); err != nil || !stored {
		return moved, err
	}
	moved.buckets, err = m.arrived(ctx, day, moved.sites, oldest)
	return moved, err
}

// awaitStored reports whether all of the groups are stored, now or soon.
func (m *motion) awaitStored(ctx context.Context, day time.Time, groups map[string]groupEntry) (bool, error) {
	now := groups
	for waited := time.Duration(0); ; waited += storedPoll {
		open := false
		for batch := range groups {
			open = open || !now[batch].stored
		}
		if !open || waited > storedWithin {
			return !open, nil
		}
		if err := pause(ctx, storedPoll); err != nil {
			return false, err
		}
		var err error
		if now, err = m.groups(ctx, day); err != nil {
			return false, err
		}
	}
}

// arrived lists the buckets of a day with rows received since oldest: those of any group whose oldest row is not older.
func (m *motion) arrived(ctx context.Context, day time.Time, sites map[string]bool, oldest time.Time) (bucketSet, error) {
	var names []string
	for site := range sites {
		names = append(names, site)
	}
	rows, err := m.conn.Query(ctx, `SELECT DISTINCT toString(site), toUnixTimestamp(`+bucketOf+`) FROM events
WHERE ts >= fromUnixTimestamp64Milli({from:Int64} * 1000) AND ts < fromUnixTimestamp64Milli({to:Int64} * 1000) AND has({sites:Array(String)}, site)
	AND received_at >= fromUnixTimestamp64Milli({oldest:Int64}, 'UTC')`,
		clickhouse.Named("from", fmt.Sprint(day.Unix())), clickhouse.Named("to", fmt.Sprint(day.AddDate(0, 0, 1).Unix())),
		clickhouse.Named("sites", names), clickhouse.Named("oldest", fmt.Sprint(oldest.UnixMilli())))
	if err != nil {
		return nil, fmt.Errorf("read what arrived: %w", err)
	}
	defer func() { _ = rows.Close() }()
	buckets := bucketSet{}
	for rows.Next() {
		var key bucketKey
		if err := rows.Scan(&key.site, &key.bucket); err != nil {
			return nil, fmt.Errorf("read what arrived: %w", err)
		}
		buckets[key] = struct{}{}
	}
	return buckets, rows.Err()
}
