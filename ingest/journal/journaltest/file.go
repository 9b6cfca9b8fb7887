package journaltest

import "github.com/pagetally/pagetally/ingest/journal"

var _ journal.FS = (*FS)(nil)

// MkdirAll implements journal.FS.
func (f *FS) MkdirAll(dir string) error {
	return f.call(MkdirAll, dir, func() error { return f.FS.MkdirAll(dir) })
}

// Create implements journal.FS.
func (f *FS) Create(name string) (journal.File, error) { return f.open(Create, name, f.FS.Create) }

// OpenAppend implements journal.FS.
func (f *FS) OpenAppend(name string) (journal.File, error) {
	return f.open(OpenAppend, name, f.FS.OpenAppend)
}

// Open implements journal.FS.
func (f *FS) Open(name string) (journal.File, error) { return f.open(Open, name, f.FS.Open) }

func (f *FS) open(op Op, name string, do func(string) (journal.File, error)) (file journal.File, err error) {
	err = f.call(op, name, func() (err error) {
		file, err = do(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	if op == Create {
		f.mark(name, 0)
	}
	return &faultFile{File: file, fs: f, name: name}, nil
}

// Rename implements journal.FS.
func (f *FS) Rename(oldname, newname string) error {
	return f.call(Rename, newname, func() error {
		err := f.FS.Rename(oldname, newname)
		if err == nil {
			f.mu.Lock()
			defer f.mu.Unlock()
			if size, ok := f.synced[oldname]; ok {
				f.synced[newname] = size
				delete(f.synced, oldname)
			}
		}
		return err
	})
}

// Remove implements journal.FS.
func (f *FS) Remove(name string) error {
	return f.call(Remove, name, func() error { return f.FS.Remove(name) })
}

// ReadDir implements journal.FS.
func (f *FS) ReadDir(dir string) (infos []journal.FileInfo, err error) {
	err = f.call(ReadDir, dir, func() (err error) {
		infos, err = f.FS.ReadDir(dir)
		return err
	})
	return infos, err
}

// SyncDir implements journal.FS.
func (f *FS) SyncDir(dir string) error {
	return f.call(SyncDir, dir, func() error {
		if f.SkipSync {
			return nil
		}
		return f.FS.SyncDir(dir)
	})
}

// mark remembers a file's size as durable.
func (f *FS) mark(name string, size int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.synced[name] = size
}

type faultFile struct {
	journal.File
	fs   *FS
	name string
}

func (f *faultFile) Write(p []byte) (n int, err error) {
	short, after, err := f.fs.enter(Write, f.name)
	if err != nil {
		if short {
			n, _ = f.File.Write(p[:len(p)/2])
		}
		return n, err
	}
	n, err = f.File.Write(p)
	after(err)
	return n, err
}

func (f *faultFile) ReadAt(p []byte, at int64) (n int, err error) {
	err = f.fs.call(ReadAt, f.name, func() (err error) {
		n, err = f.File.ReadAt(p, at)
		return err
	})
	return n, err
}

func (f *faultFile) Datasync() error {
	return f.fs.call(Datasync, f.name, func() error {
		if !f.fs.SkipSync {
			if err := f.File.Datasync(); err != nil {
				return err
			}
		}
		size, err := f.File.Size()
		if err == nil {
			f.fs.mark(f.name, size)
		}
		return err
	})
}

func (f *faultFile) Truncate(size int64) error {
	return f.fs.call(Truncate, f.name, func() error {
		f.fs.mu.Lock()
		if synced, ok := f.fs.synced[f.name]; ok {
			f.fs.synced[f.name] = min(synced, size)
		}
		f.fs.mu.Unlock()
		return f.File.Truncate(size)
	})
}

func (f *faultFile) Size() (size int64, err error) {
	err = f.fs.call(Size, f.name, func() (err error) {
		size, err = f.File.Size()
		return err
	})
	return size, err
}

// Close really closes even when it fails, as close does.
func (f *faultFile) Close() error {
	err := f.fs.call(Close, f.name, func() error { return nil })
	if cerr := f.File.Close(); err == nil {
		err = cerr
	}
	return err
}
