package main

import (
	"os"
	"runtime/debug"
)

// gcPercent trades a few per cent of CPU for memory: most of what a busy server allocates is the columns of blocks, which are garbage
// a second later, and at Go's default of 100 they would double its size.
const gcPercent = 50

// leanMemory sets gcPercent unless the environment says otherwise.
func leanMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
