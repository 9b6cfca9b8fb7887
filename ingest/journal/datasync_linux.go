package journal

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// datasync skips the modification time, which fsync would write too: one journal write of the file system less.
func datasync(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return os.NewSyscallError("fdatasync", err)
	}
}
