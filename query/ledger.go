package query

import (
	"context"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Books say what became of every event that was ever acknowledged:
// Accepted = Stored + Duplicate + Parked + Pending + Quarantined + Undone + Forgotten, when they balance.
type Books struct {
	Accepted    int64 `json:"accepted"`
	Stored      int64 `json:"stored"`
	Duplicate   int64 `json:"duplicate"`
	Parked      int64 `json:"parked"`
	Pending     int64 `json:"pending"` // acknowledged by this node, not yet delivered
	Quarantined int64 `json:"quarantined"`
	Undone      int64 `json:"undone"`
	Forgotten   int64 `json:"forgotten"`
	Batches     int64 `json:"batches"`
	// Open is the number of batches that were begun and are not known to be stored.
	Open     int64  `json:"open"`
	Balanced bool   `json:"balanced"`
	AsOf     string `json:"as_of"`
}

// ledgerSQL reads outcomes only: an intent says what may happen, not what did.
const ledgerSQL = `SELECT
    sumIf(accepted, state = 'stored'), sumIf(stored, state = 'stored'), sumIf(duplicate, state = 'stored'),
    sumIf(parked, state = 'stored'), sumIf(quarantined, state = 'stored'), sumIf(undone, state = 'stored'),
    sumIf(forgotten, state = 'stored'),
    toInt64(countIf(state = 'stored')), toInt64(countIf(state = 'intent')) - toInt64(countIf(state = 'stored'))
FROM ledger FINAL`

// Ledger adds up the batches' outcomes and what is on its way.
func (s *Store) Ledger(ctx context.Context) (Books, error) {
	b := Books{AsOf: formatTime(s.asOf().UTC())}
	// A batch delivered between the two looks would be seen by neither or by both, so look again.
	const looks = 3
	for range looks {
		b.Pending = s.pending()
		err := s.each(ctx, statement{sql: ledgerSQL}, func(rows driver.Rows) error {
			return rows.Scan(&b.Accepted, &b.Stored, &b.Duplicate, &b.Parked, &b.Quarantined, &b.Undone, &b.Forgotten, &b.Batches, &b.Open)
		})
		if err != nil {
			return Books{}, err
		}
		if s.pending() == b.Pending {
			break
		}
	}
	b.Accepted += b.Pending
	b.Balanced = b.Accepted == b.Stored+b.Duplicate+b.Parked+b.Pending+b.Quarantined+b.Undone+b.Forgotten
	return b, nil
}

func (s *Store) pending() int64 {
	if s.cfg.InFlight == nil {
		return 0
	}
	return s.cfg.InFlight.Pending()
}
