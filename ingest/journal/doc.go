// Package journal is the durable waiting room between an acknowledged request and its delivery: an append-only,
// group-committed log of opaque payloads in one directory. It knows bytes and row counts, never what a row means.
//
// # The life of a payload
//
// Append copies the payload as one frame into the gathering group. One goroutine, the committer, takes the group,
// writes it to the open segment, calls fdatasync once for everyone in it, and wakes them all; while it syncs the next
// group gathers. A segment that is old, long or large enough gets a footer and moves from open/ to sealed/, where the
// owner of delivery finds it (Sealed, List, Read), moves it on (Move, Write) and in the end removes it (Remove).
//
// # The directory
//
//	lock         held by flock while a Journal is open: one process a directory
//	node         the node's id, made once
//	open/        the segment being written (and, after a failure, those waiting to be mended)
//	sealed/      complete, waiting for delivery
//	parked/      rows that wait for another batch's fate
//	quarantine/  rows or segments an operator must look at
//	kept/        delivered, kept for a while in case the store forgets
//	decisions/   small files of the delivery, through WriteFile
//
// A segment is the file ULID.seg in one of these folders; the folder is its state, so a change of state is one rename
// and a segment is in one state at every moment. Files that must appear whole are written as NAME.tmp, synced and
// renamed, and the folder is synced; left-over .tmp files are removed by Open.
//
// # Guarantees
//
// A nil error from Append means the frame is on disk and will be read back exactly once, whatever is killed. An error
// that matches ErrFull, ErrIO or ErrClosed means the frame is not in the journal and never will be, unless the process
// or machine dies while the failed group is being cut off. A cancelled context leaves it open which of the two.
//
// After a failed write or fdatasync the state of a file's pages in memory is unknown, so that file is never
// synced again: its acknowledged frames are copied to a fresh file, which replaces it. Only a write
// refused for lack of space, which leaves the pages trustworthy, is mended in place, since a copy would need space too.
//
// Identifiers rise within a process and are never below one that exists in the directory, whatever the clock does.
//
// # Goroutines
//
// Open starts the committer and Close stops it. Only the committer touches the open segment; everything else is the
// catalogue and the gathering group, each behind a mutex that is never held across a file call.
//
// Start reading at journal.go, then append.go and commit.go; frame.go draws the file layout; mend.go and recover.go
// hold what happens after a failure and after a crash. The package journaltest has a file system that fails on request.
package journal
