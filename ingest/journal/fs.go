package journal

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// FS is every file call the journal makes (but for the lock file), so that tests can make each of them fail or stop.
// Errors must match those of package os (fs.ErrNotExist, syscall.ENOSPC).
type FS interface {
	MkdirAll(dir string) error
	// Create makes a file that must not exist yet, for writing.
	Create(name string) (File, error)
	// OpenAppend opens an existing file for writing at its end.
	OpenAppend(name string) (File, error)
	// Open opens an existing file for reading.
	Open(name string) (File, error)
	// Rename replaces newname, if it exists, in one step.
	Rename(oldname, newname string) error
	Remove(name string) error
	// ReadDir lists a folder, without its own folders, in any order.
	ReadDir(dir string) ([]FileInfo, error)
	// SyncDir makes earlier creations, renames and removals in dir durable.
	SyncDir(dir string) error
	// Room returns how many bytes dir's file system has left for this process, and how many it has in all.
	Room(dir string) (left, size int64, err error)
}

// File is an open file. Write appends; it returns an error when it wrote less than all of p.
type File interface {
	io.Writer
	io.ReaderAt
	io.Closer
	// Datasync makes everything written so far, and the file's size, durable.
	Datasync() error
	Truncate(size int64) error
	Size() (int64, error)
}

// FileInfo is one file of a folder.
type FileInfo struct {
	Name string
	Size int64
}

// OSFS is the real file system.
type OSFS struct{}

var _ FS = OSFS{}

// Files may hold addresses and user agents' traces until they are delivered: nobody else's business.
const (
	dirMode  = 0o700
	fileMode = 0o600
)

// MkdirAll implements FS.
func (OSFS) MkdirAll(dir string) error { return os.MkdirAll(dir, dirMode) }

// Create implements FS.
func (OSFS) Create(name string) (File, error) {
	return openFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND)
}

// OpenAppend implements FS.
func (OSFS) OpenAppend(name string) (File, error) { return openFile(name, os.O_WRONLY|os.O_APPEND) }

// Open implements FS.
func (OSFS) Open(name string) (File, error) { return openFile(name, os.O_RDONLY) }

func openFile(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, fileMode)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// Rename implements FS.
func (OSFS) Rename(oldname, newname string) error { return os.Rename(oldname, newname) }

// Remove implements FS.
func (OSFS) Remove(name string) error { return os.Remove(name) }

// ReadDir implements FS.
func (OSFS) ReadDir(dir string) ([]FileInfo, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	infos := make([]FileInfo, 0, len(entries))
	for _, e := range entries {
		info, err := e.Info()
		if os.IsNotExist(err) { // renamed away since the folder was read
			continue
		}
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			infos = append(infos, FileInfo{Name: e.Name(), Size: info.Size()})
		}
	}
	return infos, nil
}

// SyncDir implements FS.
func (OSFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// Room implements FS.
func (OSFS) Room(dir string) (left, size int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), nil
}

type osFile struct{ *os.File }

func (f osFile) Datasync() error { return datasync(f.File) }

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
