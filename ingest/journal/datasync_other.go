//go:build !linux

package journal

import "os"

// datasync is a full Sync where there is no cheaper call; on macOS Go makes it F_FULLFSYNC, which reaches the medium.
func datasync(f *os.File) error { return f.Sync() }
