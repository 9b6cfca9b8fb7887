package embedded

import "errors"

// What keeps an engine from starting, each with advice in the wrapping message. Run and Locate return them.
var (
	// ErrLibraryMissing: no libchdb.so was found.
	ErrLibraryMissing = errors.New("engine library missing")
	// ErrBadLibrary: the file is there but is no engine: not a shared library, damaged, or without the entry point.
	ErrBadLibrary = errors.New("engine library unusable")
	// ErrWrongPlatform: the library is made for another system or processor, or none is made for this one.
	ErrWrongPlatform = errors.New("engine library for another platform")
	// ErrDirectoryInUse: another process runs an engine on the directory, or the previous one has not ended yet.
	ErrDirectoryInUse = errors.New("engine directory in use")
	// ErrPortTaken: another program listens on a port that this directory's engine is bound to.
	ErrPortTaken = errors.New("engine port taken")
	// ErrTooOld: the library is older than MinVersion.
	ErrTooOld = errors.New("engine too old")
	// ErrNotStarting: the engine ended or stayed silent on each of its first starts.
	ErrNotStarting = errors.New("engine does not start")
	// ErrPasswordNeeded: the engine was told to listen beyond loopback without a password for the reader.
	ErrPasswordNeeded = errors.New("password needed to listen beyond loopback")
)
