package journal

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// Errors a caller branches on. Match them with errors.Is.
var (
	ErrFull     = errors.New("journal full")               // no room: the limit, the disk, or too many bytes wait for a commit
	ErrIO       = errors.New("journal i/o failed")         // a file call failed for another reason than room
	ErrClosed   = errors.New("journal closed")             // Close was called
	ErrTooLarge = errors.New("payload too large")          // over MaxPayload, MaxRows or Options.MaxPending: never retry
	ErrEmpty    = errors.New("payload without rows")       // no bytes, or rows < 1
	ErrLocked   = errors.New("journal directory in use")   // another process holds it
	ErrCorrupt  = errors.New("corrupt segment")            // bytes that no journal wrote; see CorruptError
	ErrNotFound = errors.New("no such segment")            // the segment is not in the named state
	ErrExists   = errors.New("segment exists")             // the id is taken by other content or by another state
	ErrState    = errors.New("state not allowed here")     // open segments belong to the committer alone
	ErrVersion  = errors.New("segment of another version") // written by a newer program: nothing is touched
	ErrNode     = errors.New("directory of another node")  // Options.Node differs from the directory's
)

// refusal is an answer to Append that the sender should try again later: ErrFull or ErrIO with its cause and a hint.
type refusal struct {
	kind  error
	cause error
	after time.Duration
}

func (r *refusal) Error() string   { return r.kind.Error() + ": " + r.cause.Error() }
func (r *refusal) Unwrap() []error { return []error{r.kind, r.cause} }

// RetryAfter returns how long a refused sender should wait before it tries again; zero when err, an error from
// Append, is not worth a retry.
func RetryAfter(err error) time.Duration {
	var r *refusal
	switch {
	case errors.As(err, &r):
		return r.after
	case errors.Is(err, ErrClosed), errors.Is(err, ErrFull), errors.Is(err, ErrIO):
		return time.Second
	}
	return 0
}

var (
	errLimit   = errors.New("disk limit reached")
	errRoom    = errors.New("disk almost full")
	errPending = errors.New("commit queue full")
)

// Hints differ by what has to happen first: a commit takes milliseconds, freeing disk takes a delivery or an operator.
const (
	retryPending = time.Second
	retryIO      = 2 * time.Second
	retryLimit   = 5 * time.Second
	retryNoSpace = 10 * time.Second
)

// refuse classes the failure of a file call.
func refuse(cause error) *refusal {
	if noSpace(cause) || errors.Is(cause, errRoom) {
		return &refusal{kind: ErrFull, cause: cause, after: retryNoSpace}
	}
	return &refusal{kind: ErrIO, cause: cause, after: retryIO}
}

func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// CorruptError says where a segment stops making sense. It matches ErrCorrupt.
type CorruptError struct {
	Offset int64 // in the file, of the header, frame or footer that failed
	Reason string
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("corrupt segment at byte %d: %s", e.Offset, e.Reason)
}

// Is reports whether target is ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }
