// Package aggregate delivers journaled events to ClickHouse so that each counts exactly once, whatever is killed.
//
// # The life of a segment
//
// The journal seals a segment. Delivery reads it, alone or with its neighbours under backlog, and makes a [Decision]: which rows
// are duplicates of events that were claimed before, which must wait (parked), and how the rest is cut into batches. The decision is
// a file; only when it is on disk is a batch inserted. A batch is one INSERT of one block under a token, which is the batch's id.
//
//	sealed segments -> claims -> decision file -> ledger: intent -> INSERT with token -> ledger: stored -> files removed
//
// # Certain and uncertain
//
// An INSERT whose first try answered OK is certain. Anything else (an error, a time-out, a lost connection, a restart of either
// process) makes the batch uncertain, and the token alone cannot mend it: the engine logs the token of a part before it renames the
// part into place, so a kill in between leaves a token without rows, and every retry then answers OK and stores nothing. An
// uncertain batch is therefore settled (settle.go): wait until the query has left the server, retry under the token until OK, compare
// what `events` holds of the batch with the decision, fill what is missing, and mend the rollups of the buckets it touches.
// Uncertain batches go before new ones, and nothing else is inserted meanwhile, since mending compares sums.
//
// # What can go wrong with rows
//
// A row that ClickHouse refuses is found by cutting its batch in halves, and quarantined: kept, shown, retried or dropped by an
// operator. A row is quarantined only after the same tables took another row, so that a broken table never empties the journal.
//
// # Verifying
//
// [Verify] compares any range of the events with every rollup, beside a running delivery, and repairs what differs. It belongs to no
// Delivery and needs no journal: the ledger tells it what is on its way.
//
// # Claims
//
// An event id belongs to the row that claimed it first ([Claims]). One node keeps claims in memory and finds older ones in
// `event_ids` ([MemoryClaims]); several nodes share a Redis ([RedisClaims]), which is a cache of the same: it is believed only while it
// surely holds every claim, and filled anew when it does not. A row whose id another row holds is a duplicate once that one is sure to
// be counted, and parked until then.
//
// # Who owns what
//
// One goroutine, [Delivery.Run], owns all state and makes all decisions; each INSERT in flight has a goroutine of its own, at most
// Config.Parallel of them, that reports back to it. Start reading at deliver.go.
package aggregate
