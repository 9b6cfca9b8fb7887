package ingest

import (
	"encoding/binary"
	"hash/maphash"
	"sync"
	"time"
)

// Sizes of a rateTable: 64 shards of 128 rows of 8 buckets, a megabyte in all.
const (
	rateShards = 64
	rateRows   = 128
	rateWays   = 8 // buckets of a row, two cache lines
)

// burstWindow is how much of its rate a sender of beacons may use at once: the burst is twice what it may send in a second.
const burstWindow = 2 * time.Second

// hashMix is odd: it keeps the hashes of two parts apart, so that swapping the parts makes another key.
const hashMix = 0x9e3779b97f4a7c15

// rateTable limits the rate of each of any number of senders in fixed memory. It keeps the buckets of some 65,000 of them; where
// more share a row, the one closest to full makes room, so that whoever is at the limit is remembered and nobody is refused
// for another. It is safe for concurrent use, and neither allocates nor waits for more than a few instructions of another.
//
// The algorithm is GCRA (ITU-T I.371): a bucket is one instant, the time at which it would be full again. An event moves it by
// 1/rate and is refused when that would put it further ahead than window.
type rateTable struct {
	seed   maphash.Seed // secret: nobody can aim at another's row
	start  time.Time
	window time.Duration // how much of its rate a sender may use at once
	shards [rateShards]rateShard
}

type rateShard struct {
	mu   sync.Mutex
	rows [rateRows][rateWays]rateBucket
	_    [56]byte // the next shard's mutex is on another cache line
}

// rateBucket is a sender's, or nobody's when it is full again.
type rateBucket struct {
	sender uint64
	full   int64 // nanoseconds since the table's start
}

func newRateTable(now time.Time, window time.Duration) *rateTable {
	return &rateTable{seed: maphash.MakeSeed(), start: now, window: window}
}

// sender is the key of a sender: an address (zeros for none) at a site.
func (t *rateTable) sender(address [16]byte, site string) uint64 {
	return maphash.Bytes(t.seed, address[:]) ^ maphash.String(t.seed, site)*hashMix
}

// take asks for one event of a sender at a rate in events a second. It returns 0 when the event is within the rate, else how long
// the sender has to wait. A look only tells, it takes nothing.
func (t *rateTable) take(sender uint64, rate float64, now time.Time, look bool) (wait time.Duration) {
	at := int64(now.Sub(t.start))
	step := int64(float64(time.Second) / rate)
	shard := &t.shards[sender%rateShards]
	row := sender / rateShards % rateRows
	shard.mu.Lock()
	defer shard.mu.Unlock()
	b := shard.bucket(row, sender)
	full := at
	if b.sender == sender && b.full > at {
		full = b.full
	}
	// A step longer than the window is the rate of one in some seconds: it still lets one pass.
	if ahead := full + step - at - max(int64(t.window), step); ahead > 0 {
		return time.Duration(ahead)
	}
	if !look {
		*b = rateBucket{sender, full + step}
	}
	return 0
}

// left is how many events of a sender are within its rate now.
func (t *rateTable) left(sender uint64, rate float64, now time.Time) int {
	at := int64(now.Sub(t.start))
	shard := &t.shards[sender%rateShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	b := shard.bucket(sender/rateShards%rateRows, sender)
	room := int64(t.window)
	if b.sender == sender && b.full > at {
		room -= b.full - at
	}
	return int(room / int64(float64(time.Second)/rate))
}

// bucket finds the sender's bucket, or the one of its row that is full first.
func (s *rateShard) bucket(row, sender uint64) *rateBucket {
	buckets := &s.rows[row]
	first := &buckets[0]
	for i := range buckets {
		b := &buckets[i]
		if b.sender == sender {
			return b
		}
		if b.full < first.full {
			first = b
		}
	}
	return first
}

// addressKey is what senders are told apart by: an IPv4 address, or the /64 network of an IPv6 one, which one subscriber has.
func addressKey(a [16]byte) [16]byte {
	const mapped = 0xffff << 32 // ::ffff:0:0/96 in its lower half's upper part
	if binary.BigEndian.Uint64(a[:8]) == 0 && binary.BigEndian.Uint64(a[8:])&(0xffffffff<<32) == mapped {
		return a
	}
	clear(a[8:])
	return a
}
