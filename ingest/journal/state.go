package journal

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
)

// State says where in its life a segment is; it is the folder the segment's file lies in.
type State uint8

// The states of a segment.
const (
	StateOpen        State = iota // being written, or waiting to be mended after a failure
	StateSealed                   // complete and not yet delivered
	StateParked                   // holds rows whose fate depends on another batch
	StateQuarantined              // an operator must look at it
	StateKept                     // delivered, kept for a while
	numStates
)

var stateFolders = [numStates]string{"open", "sealed", "parked", "quarantine", "kept"}

// String returns the name of the state's folder.
func (s State) String() string {
	if s >= numStates {
		return fmt.Sprintf("state %d", uint8(s))
	}
	return stateFolders[s]
}

// ParseState is the inverse of State.String.
func ParseState(folder string) (State, error) {
	for s, name := range stateFolders {
		if name == folder {
			return State(s), nil
		}
	}
	return 0, fmt.Errorf("unknown segment state %q", folder)
}

// Kind says how a segment came to be.
type Kind uint8

// The kinds of segment.
const (
	KindLive    Kind = 1 // appended by Append
	KindParked  Kind = 2 // rows set aside by delivery
	KindRetried Kind = 3 // rows taken out of quarantine
)

// String returns the kind in one lower-case word.
func (k Kind) String() string {
	switch k {
	case KindLive:
		return "live"
	case KindParked:
		return "parked"
	case KindRetried:
		return "retried"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Info describes a segment without its payloads.
type Info struct {
	ID      ulid.ULID
	State   State
	Kind    Kind
	Format  uint16    // version of the payloads' encoding, as given in Options
	Node    string    // the node that wrote it
	Rows    int       // rows in all frames
	Frames  int       // payloads
	Bytes   int64     // size of the file
	Created time.Time // when its first payload was handed in, to the millisecond
	// Damaged is set when header or footer could not be read: then only ID, State and Bytes are known, and Read
	// fails with a *CorruptError.
	Damaged bool
}

const (
	segmentSuffix = ".seg"
	tempSuffix    = ".tmp"
)

func segmentName(id ulid.ULID) string { return id.String() + segmentSuffix }

// segmentID is the inverse of segmentName; ok is false for any other file.
func segmentID(name string) (id ulid.ULID, ok bool) {
	base, found := strings.CutSuffix(name, segmentSuffix)
	if !found {
		return id, false
	}
	id, err := ulid.ParseStrict(base)
	return id, err == nil && id.String() == base
}

func stateDir(dir string, s State) string { return filepath.Join(dir, stateFolders[s]) }

func segmentPath(dir string, s State, id ulid.ULID) string {
	return filepath.Join(dir, stateFolders[s], segmentName(id))
}
