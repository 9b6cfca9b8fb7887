package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
)

// version is set by the linker for a release.
var version = "dev"

// versionCommand prints what this binary is.
type versionCommand struct{}

// Run prints the version, the commit it was built from and the platform.
func (versionCommand) Run(out io.Writer) error {
	_, err := fmt.Fprintf(out, "pagetally %s (%s, %s, %s/%s)\n", version, commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown commit"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	return "unknown commit"
}
