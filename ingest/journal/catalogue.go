package journal

import (
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
)

// catalogue knows every file of the directory and its size, so that limits, statistics and lists cost no file calls.
// It is changed once the file call it reflects has succeeded.
type catalogue struct {
	mu       sync.RWMutex
	segments [numStates]map[ulid.ULID]Info
	bytes    [numStates]int64
	files    map[string]int64 // "decisions/NAME" to size
	total    atomic.Int64     // bytes of all files; changed under mu
}

func newCatalogue() *catalogue {
	c := &catalogue{files: make(map[string]int64)}
	for s := range c.segments {
		c.segments[s] = make(map[ulid.ULID]Info)
	}
	return c
}

// put enters a segment, or enters it anew with other numbers.
func (c *catalogue) put(info Info) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(info.State, info.ID)
	c.putLocked(info)
}

// move enters a segment in its state and takes it out of the old one, with no moment in between.
func (c *catalogue) move(info Info, from State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(from, info.ID)
	c.dropLocked(info.State, info.ID)
	c.putLocked(info)
}

func (c *catalogue) drop(s State, id ulid.ULID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(s, id)
}

func (c *catalogue) putLocked(info Info) {
	c.segments[info.State][info.ID] = info
	c.bytes[info.State] += info.Bytes
	c.total.Add(info.Bytes)
}

func (c *catalogue) dropLocked(s State, id ulid.ULID) {
	if old, ok := c.segments[s][id]; ok {
		c.bytes[s] -= old.Bytes
		c.total.Add(-old.Bytes)
		delete(c.segments[s], id)
	}
}

func (c *catalogue) get(s State, id ulid.ULID) (Info, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	info, ok := c.segments[s][id]
	return info, ok
}

// find looks in every state.
func (c *catalogue) find(id ulid.ULID) (Info, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for s := range c.segments {
		if info, ok := c.segments[s][id]; ok {
			return info, true
		}
	}
	return Info{}, false
}

func (c *catalogue) list(s State) []Info {
	c.mu.RLock()
	infos := make([]Info, 0, len(c.segments[s]))
	for _, info := range c.segments[s] {
		infos = append(infos, info)
	}
	c.mu.RUnlock()
	sortByID(infos)
	return infos
}

func sortByID(infos []Info) {
	slices.SortFunc(infos, func(a, b Info) int { return a.ID.Compare(b.ID) })
}

// putFile enters a loose file; a size below zero takes it out.
func (c *catalogue) putFile(name string, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.Add(-c.files[name])
	if size < 0 {
		delete(c.files, name)
		return
	}
	c.files[name] = size
	c.total.Add(size)
}

// oldest returns when the first undelivered payload of the given states came; zero when there is none.
func (c *catalogue) oldest(states ...State) time.Time {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var first time.Time
	for _, s := range states {
		for _, info := range c.segments[s] {
			if info.Rows > 0 && (first.IsZero() || info.Created.Before(first)) {
				first = info.Created
			}
		}
	}
	return first
}

// Stats is a snapshot of what the journal holds.
type Stats struct {
	OpenRows       int
	OpenBytes      int64 // of files, like all sizes here
	SealedSegments int
	SealedRows     int
	SealedBytes    int64
	ParkedSegments int
	Quarantined    int // segments
	KeptSegments   int
	KeptBytes      int64
	TotalBytes     int64     // all files, what MaxBytes limits
	Oldest         time.Time // first payload of the oldest open or sealed segment; zero when there is none
}

func (c *catalogue) stats() Stats {
	oldest := c.oldest(StateOpen, StateSealed)
	c.mu.RLock()
	defer c.mu.RUnlock()
	return Stats{
		OpenRows:       sumRows(c.segments[StateOpen]),
		OpenBytes:      c.bytes[StateOpen],
		SealedSegments: len(c.segments[StateSealed]),
		SealedRows:     sumRows(c.segments[StateSealed]),
		SealedBytes:    c.bytes[StateSealed],
		ParkedSegments: len(c.segments[StateParked]),
		Quarantined:    len(c.segments[StateQuarantined]),
		KeptSegments:   len(c.segments[StateKept]),
		KeptBytes:      c.bytes[StateKept],
		TotalBytes:     c.total.Load(),
		Oldest:         oldest,
	}
}

func (c *catalogue) sums(s State) (segments int, bytes int64, rows int) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.segments[s]), c.bytes[s], sumRows(c.segments[s])
}

func sumRows(segments map[ulid.ULID]Info) (rows int) {
	for _, info := range segments {
		rows += info.Rows
	}
	return rows
}

func (c *catalogue) fileNames(folder string) []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	names := make([]string, 0, len(c.files))
	for path := range c.files {
		if dir, name := filepath.Split(path); filepath.Clean(dir) == folder {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
