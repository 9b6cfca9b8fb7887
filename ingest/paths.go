package ingest

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/pagetally/pagetally/schema"
)

// FoldedPath is the page of views whose path is one too many.
const FoldedPath = "(other)"

// Sizes of pathSet.
const (
	pathShards = 64
	// maxPaths bounds the paths of all sites in a day, in 64 MiB at the most: forty sites at the default limit.
	maxPaths    = 4 << 20
	leastBucket = 256
)

// pathSet knows the paths that were seen this UTC day of receipt, of all sites, as hashes. A site that has had its number of them
// gets no new ones until midnight. Each node counts for itself. It is safe for concurrent use.
type pathSet struct {
	seed   maphash.Seed
	most   int // paths of a shard
	shards [pathShards]pathShard

	mu    sync.Mutex
	day   Day
	sites map[string]int // paths seen, by site
}

// pathShard is a hash table with open addressing; 0 marks a free place.
type pathShard struct {
	mu    sync.Mutex
	day   Day
	used  int
	table []uint64 // its length is a power of two; at most two thirds are used
}

// newPathSet makes a set of at most size paths, give or take what falls unevenly into its shards.
func newPathSet(size int) *pathSet {
	return &pathSet{seed: maphash.MakeSeed(), most: size / pathShards, sites: make(map[string]int)}
}

// admit reports whether a site's path may be counted under its own name on a day. The first limit paths of a day may. A look
// only tells.
func (p *pathSet) admit(site, path string, limit int, day Day, look bool) bool {
	hash := p.hash(site, path)
	shard := &p.shards[hash%pathShards]
	shard.mu.Lock()
	defer shard.mu.Unlock()
	shard.startLocked(day)
	place, known := shard.findLocked(hash)
	if known {
		return true
	}
	if shard.used >= p.most || !p.countNew(site, limit, day, look) {
		return false
	}
	if !look {
		shard.addLocked(place, hash)
	}
	return true
}

func (p *pathSet) hash(site, path string) uint64 {
	hash := maphash.String(p.seed, path) ^ maphash.String(p.seed, site)*hashMix
	if hash == 0 {
		return 1 // 0 marks a free place
	}
	return hash
}

// countNew takes one of the site's new paths of the day, if there is one left.
func (p *pathSet) countNew(site string, limit int, day Day, look bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if day > p.day {
		p.day = day
		clear(p.sites)
	}
	if p.sites[site] >= limit {
		return false
	}
	if !look {
		p.sites[site]++
	}
	return true
}

// startLocked forgets the paths of the day before. A clock that goes back stays in the day it was in.
func (s *pathShard) startLocked(day Day) {
	if day > s.day {
		s.day, s.used, s.table = day, 0, nil
	}
}

// findLocked returns where the hash is or would be put.
func (s *pathShard) findLocked(hash uint64) (place int, known bool) {
	if s.table == nil {
		return 0, false
	}
	mask := uint64(len(s.table) - 1)
	for i := hash / pathShards & mask; ; i = (i + 1) & mask {
		switch s.table[i] {
		case hash:
			return int(i), true
		case 0:
			return int(i), false
		}
	}
}

func (s *pathShard) addLocked(place int, hash uint64) {
	if 3*(s.used+1) > 2*len(s.table) {
		s.growLocked()
		place, _ = s.findLocked(hash)
	}
	s.table[place] = hash
	s.used++
}

func (s *pathShard) growLocked() {
	old := s.table
	s.table = make([]uint64, max(leastBucket, 2*len(old)))
	for _, hash := range old {
		if hash != 0 {
			place, _ := s.findLocked(hash)
			s.table[place] = hash
		}
	}
}

// foldPath counts a view of a path that is one too many as one of FoldedPath; the event keeps the path. It is the last step, so
// that what is not counted takes no place. Paths of callers with a key are theirs: they are neither folded nor counted, so that
// an import of years keeps its pages and leaves the day's new paths to the visitors.
func foldPath(s *Server, h *hit) Reason {
	if h.keyed {
		return Accepted
	}
	e := &h.event
	limit := h.site.Limits.or(DefaultLimits).NewPathsDay
	if !s.paths.admit(e.Site, e.PathKey, limit, utcDay(e.ReceivedAt), s.trace != nil) {
		e.PathKey = FoldedPath
		e.Flags |= schema.FlagPathFolded
		s.metrics.folded.WithLabelValues(labelOf(h.site)).Inc()
	}
	return Accepted
}

func utcDay(ms int64) Day { return dayOf(ms, time.UTC) }
