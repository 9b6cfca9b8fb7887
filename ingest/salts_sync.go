package ingest

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

const tableTimeout = 5 * time.Second // of a statement on a small table

// Sync publishes this node's salts to the table salts and adopts those that were made before its own. Days ahead are agreed on before
// they begin; a salt adopted in the middle of its day (ClickHouse was away when the day was made) splits some visitors of that day.
func (s *Salts) Sync(ctx context.Context) error {
	if s.cfg.Conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	days := *s.days.Load()
	published, err := s.publish(ctx, days)
	if err != nil {
		return fmt.Errorf("publish salts: %w", err)
	}
	shared, err := s.shared(ctx)
	if err != nil {
		return fmt.Errorf("read shared salts: %w", err)
	}
	return s.adopt(shared, published)
}

// publish inserts the salts that are not in ClickHouse yet and returns their days. The table holds a row once however often it is sent.
func (s *Salts) publish(ctx context.Context, days map[Day]salt) (sent []Day, err error) {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"async_insert": 0}))
	for day, salt := range days {
		if salt.published {
			continue
		}
		err := s.cfg.Conn.Exec(ctx, "INSERT INTO salts (day, salt, created_at, node) VALUES (?, ?, fromUnixTimestamp64Milli(?), ?)",
			day.String(), fmt.Sprintf("%x", salt.value), salt.createdAt.UnixMilli(), s.cfg.Node)
		if err != nil {
			return sent, err
		}
		sent = append(sent, day)
	}
	return sent, nil
}

// shared reads the salt that counts of each day in the window: the earliest one.
func (s *Salts) shared(ctx context.Context) (map[Day]salt, error) {
	first, _ := s.window()
	rows, err := s.cfg.Conn.Query(ctx, `
		SELECT toString(day), argMin(salt, (created_at, node)), toUnixTimestamp64Milli(min(created_at))
		FROM salts WHERE day >= ? GROUP BY day`, first.String())
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	shared := make(map[Day]salt)
	for rows.Next() {
		var name, value string
		var created int64
		if err := rows.Scan(&name, &value, &created); err != nil {
			return nil, err
		}
		day, err := parseDay(name)
		if err != nil {
			return nil, err
		}
		one := salt{createdAt: time.UnixMilli(created).UTC(), published: true}
		if one.value, err = parseSalt(value); err != nil {
			return nil, err
		}
		shared[day] = one
	}
	return shared, rows.Err()
}

// adopt takes over the shared salts and notes what was published.
func (s *Salts) adopt(shared map[Day]salt, published []Day) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.days.Load()
	days := maps.Clone(old)
	for _, day := range published {
		if one, ok := days[day]; ok {
			one.published = true
			days[day] = one
		}
	}
	for day, one := range shared {
		if _, ok := days[day]; ok {
			days[day] = one
		}
	}
	if maps.Equal(days, old) {
		return nil
	}
	return s.replaceLocked(days)
}
