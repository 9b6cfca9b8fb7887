package aggregate

import (
	"context"
	"fmt"

	"github.com/oklog/ulid/v2"
)

// Owner names a journaled event: the segment that holds it and its row there.
type Owner struct {
	Segment ulid.ULID
	Index   uint32
}

// String is the form kept in tables and in Redis: SEGMENT:INDEX.
func (o Owner) String() string { return fmt.Sprintf("%s:%d", o.Segment, o.Index) }

// ParseOwner reads what Owner.String wrote.
func ParseOwner(s string) (Owner, error) {
	var o Owner
	if len(s) < ulid.EncodedSize+2 || s[ulid.EncodedSize] != ':' {
		return o, fmt.Errorf("owner %q is not SEGMENT:INDEX", s)
	}
	id, err := ulid.ParseStrict(s[:ulid.EncodedSize])
	if err != nil {
		return o, fmt.Errorf("owner %q: %w", s, err)
	}
	var index uint64
	for _, c := range []byte(s[ulid.EncodedSize+1:]) {
		if c < '0' || c > '9' || index > 1<<32-1 {
			return o, fmt.Errorf("owner %q has a bad index", s)
		}
		index = index*10 + uint64(c-'0')
	}
	if index > 1<<32-1 {
		return o, fmt.Errorf("owner %q has a bad index", s)
	}
	return Owner{Segment: id, Index: uint32(index)}, nil
}

// Claim says that Owner holds the event id whose hash is ID (site, namespace and id together).
type Claim struct {
	ID         [16]byte
	Owner      Owner
	Content    uint64 // schema.Event.ContentHash, to tell a retry from another event under a used id
	ReceivedAt int64  // Unix milliseconds
}

// Claims decides who owns an event id. For a time window of at least the configured one, all that ever ask for the same id are told
// the same owner, until the claim is released.
type Claims interface {
	// Claim answers, for each asked claim, the one that holds the id: the asked one itself if the id was free or already its own.
	// On an error nothing may be assumed, and asking again is safe. The asked ids must differ from each other.
	Claim(ctx context.Context, asked []Claim) (holders []Claim, err error)
	// Assert makes each claim hold, whatever was there: for rows already decided when a process starts.
	Assert(ctx context.Context, claims []Claim) error
	// Release frees the ids held by the given owners, so that the next to ask owns them.
	Release(ctx context.Context, claims []Claim) error
}
