//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
)

// As delivery does by default: rows of a block at most, and INSERTs in flight.
const (
	rawBlockRows = 100_000
	rawParallel  = 2
	rawChunk     = 2048 // rows held beside the block
)

// rawCost is what the raw insert took.
type rawCost struct {
	took time.Duration
	cpu  time.Duration // of this process and the engine
}

// rawTarget is where a raw insert goes.
type rawTarget struct {
	table string
	to    schema.Destination
}

var (
	rawBare  = rawTarget{"bare", schema.ToEvents} // a copy of the events table with no view on it
	rawInbox = rawTarget{schema.Inbox, schema.ToInbox}
)

// insertRaw inserts the segments' rows, as plainly as it can be done, first into a copy of the events table alone, then into the inbox,
// which fills every table as delivery does.
func insertRaw(ctx context.Context, server *counter, segments []string, rows int64) (bare, inbox rawCost, err error) {
	if err := server.Exec(ctx, "CREATE TABLE bare AS events"); err != nil {
		return bare, inbox, err
	}
	if bare, err = timeRaw(ctx, server, rawBare, segments); err != nil {
		return bare, inbox, err
	}
	var stored uint64
	if err := server.QueryRow(ctx, "SELECT count() FROM bare").Scan(&stored); err != nil {
		return bare, inbox, err
	}
	if stored != uint64(rows) {
		return bare, inbox, fmt.Errorf("%d rows stored of %d", stored, rows)
	}
	if err := server.Exec(ctx, "DROP TABLE bare"); err != nil {
		return bare, inbox, err
	}
	inbox, err = timeRaw(ctx, server, rawInbox, segments)
	return bare, inbox, err
}

func timeRaw(ctx context.Context, server *counter, target rawTarget, segments []string) (cost rawCost, err error) {
	if err := server.await(ctx, 2*time.Minute, server.mergesDone); err != nil {
		return cost, err
	}
	engine := childOf(server.pid())
	begun, before := time.Now(), cpuTime(os.Getpid())+cpuTime(engine)
	if err := insertBlocks(ctx, server, target, segments); err != nil {
		return cost, err
	}
	return rawCost{took: time.Since(begun), cpu: cpuTime(os.Getpid()) + cpuTime(engine) - before}, nil
}

// insertBlocks inserts the segments with as many INSERTs in flight as delivery has.
func insertBlocks(ctx context.Context, server *counter, target rawTarget, segments []string) error {
	blocks := make(chan []string)
	errs := make([]error, rawParallel)
	var running sync.WaitGroup
	for i := range rawParallel {
		running.Go(func() {
			for block := range blocks {
				errs[i] = errors.Join(errs[i], insertBlock(ctx, server, target, block))
			}
		})
	}
	err := cutBlocks(segments, blocks)
	close(blocks)
	running.Wait()
	return errors.Join(append(errs, err)...)
}

// mergesDone fails while the engine still tidies up after the delivery.
func (c *counter) mergesDone(ctx context.Context) error {
	var merges uint64
	if err := c.QueryRow(ctx, "SELECT count() FROM system.merges").Scan(&merges); err != nil {
		return err
	}
	if merges > 0 {
		return fmt.Errorf("%d merges run", merges)
	}
	return nil
}

// cutBlocks hands out runs of segments that make a block each.
func cutBlocks(segments []string, blocks chan<- []string) error {
	var block []string
	rows := 0
	for _, path := range segments {
		segment, err := journal.ReadSegmentFile(path)
		if err != nil {
			return err
		}
		if len(block) > 0 && rows+segment.Rows > rawBlockRows {
			blocks <- block
			block, rows = nil, 0
		}
		block, rows = append(block, path), rows+segment.Rows
	}
	if len(block) > 0 {
		blocks <- block
	}
	return nil
}

// insertBlock reads segments and inserts their rows as one block.
func insertBlock(ctx context.Context, server *counter, target rawTarget, segments []string) error {
	token := target.table + segments[0]
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(schema.InsertSettings(token)))
	batch, err := target.to.In(target.table).Prepare(ctx, server)
	if err != nil {
		return err
	}
	defer func() { _ = batch.Close() }()
	var rows schema.Rows
	for _, path := range segments {
		if err := appendSegment(batch, &rows, target.to, path); err != nil {
			return err
		}
	}
	if err := rows.AppendTo(batch, target.to); err != nil {
		return err
	}
	return batch.Send()
}

func appendSegment(batch driver.Batch, rows *schema.Rows, to schema.Destination, path string) error {
	segment, err := journal.ReadSegmentFile(path)
	if err != nil {
		return err
	}
	var event schema.Event
	for frame := range segment.Frames {
		for rest := frame.Payload; rest != ""; {
			if rest, err = schema.DecodeEvent(rest, &event); err != nil {
				return err
			}
			rows.Append(&event, segment.ID.String(), "")
			if rows.Len() < rawChunk {
				continue
			}
			if err := rows.AppendTo(batch, to); err != nil {
				return err
			}
		}
	}
	return nil
}
