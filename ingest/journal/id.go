package journal

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// idSource makes rising ULIDs. When the clock stands still or goes back it counts on from the last id instead.
type idSource struct {
	mu   sync.Mutex
	last ulid.ULID
}

// raise makes later ids greater than id.
func (s *idSource) raise(id ulid.ULID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.Compare(id) < 0 {
		s.last = id
	}
}

func (s *idSource) next(now time.Time) ulid.ULID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ms := ulid.Timestamp(now); ms > s.last.Time() {
		s.last = ulid.ULID{}
		_ = s.last.SetTime(ms) // fails only after the year 10889
		rand.Read(s.last[6:])
		return s.last
	}
	s.last = successor(s.last)
	return s.last
}

// successor adds one to the id as a 128-bit number, carrying into the time when the random part is used up.
func successor(id ulid.ULID) ulid.ULID {
	low := binary.BigEndian.Uint64(id[8:]) + 1
	binary.BigEndian.PutUint64(id[8:], low)
	if low == 0 {
		binary.BigEndian.PutUint64(id[:8], binary.BigEndian.Uint64(id[:8])+1)
	}
	return id
}
