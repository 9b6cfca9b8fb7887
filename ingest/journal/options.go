package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options configure Open. Zero values mean the defaults named here.
type Options struct {
	Dir string // required
	FS  FS     // OSFS

	// A segment is sealed at the first of these limits. It holds no more rows and bytes than they say, unless a single
	// payload does.
	SealAge   time.Duration // 1 s after its first payload
	SealRows  int           // 100,000
	SealBytes int64         // 64 MiB of frames

	// MaxBytes limits the size of all files in Dir, kept ones included: Append answers ErrFull rather than exceed it.
	// What delivery writes (parked rows, decisions) is counted but not refused, because it leads to room. 10 GiB.
	MaxBytes int64
	// KeepFree is the room that Append leaves on the disk, though at most a sixteenth of it: it answers ErrFull rather than take
	// more. Delivery, and a store on the same disk, need room to make room: on a disk without any, nothing would ever move again.
	// By default there is none.
	KeepFree int64
	// MaxPending bounds the memory of payloads that wait for a commit, and so the size of one payload. 64 MiB.
	MaxPending int
	// PendingWait is how long Append waits for room below MaxPending before it answers ErrFull. 2 s.
	PendingWait time.Duration

	Log     *slog.Logger          // discarded when nil
	Metrics prometheus.Registerer // none when nil

	Node   string // at most 32 bytes; by default what the directory has, and a new id in a new directory
	Format uint16 // version of the payloads' encoding, written into every segment
}

const (
	defaultSealAge     = time.Second
	defaultSealRows    = 100_000
	defaultSealBytes   = 64 << 20
	defaultMaxBytes    = 10 << 30
	defaultMaxPending  = 64 << 20
	defaultPendingWait = 2 * time.Second
	maxSealRows        = 1 << 30 // an index is 32 bits wide
)

func (o *Options) complete() error {
	if o.Dir == "" {
		return errors.New("journal: no directory given")
	}
	if o.FS == nil {
		o.FS = OSFS{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	setDefault(&o.SealAge, defaultSealAge)
	setDefault(&o.SealRows, defaultSealRows)
	setDefault(&o.SealBytes, defaultSealBytes)
	setDefault(&o.MaxBytes, defaultMaxBytes)
	setDefault(&o.MaxPending, defaultMaxPending)
	setDefault(&o.PendingWait, defaultPendingWait)
	switch {
	case o.SealAge < 0, o.SealRows < 0, o.SealBytes < 0, o.MaxBytes < 0, o.KeepFree < 0, o.MaxPending < 0, o.PendingWait < 0:
		return errors.New("journal: negative limit")
	case o.SealRows > maxSealRows:
		return fmt.Errorf("journal: SealRows over %d", maxSealRows)
	case len(o.Node) > maxNode:
		return fmt.Errorf("journal: node longer than %d bytes", maxNode)
	}
	return nil
}

func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}
