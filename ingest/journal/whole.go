package journal

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
)

// writeWhole makes content the file path, in one step and durably: under another name first, synced, renamed, and the
// folder synced. After an error the file is as it was, or already new but not surely durable.
func writeWhole(fsys FS, path, temp string, content []byte) error {
	return writeTemp(fsys, path, temp, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

func writeTemp(fsys FS, path, temp string, fill func(io.Writer) error) error {
	if err := writeDurably(fsys, temp, fill); err != nil {
		_ = fsys.Remove(temp) // what stays is removed by the next Open
		return err
	}
	if err := fsys.Rename(temp, path); err != nil {
		_ = fsys.Remove(temp)
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}

func writeDurably(fsys FS, name string, fill func(io.Writer) error) error {
	f, err := fsys.Create(name)
	if errors.Is(err, fs.ErrExist) { // of an attempt that could not clean up behind itself
		if err = fsys.Remove(name); err == nil {
			f, err = fsys.Create(name)
		}
	}
	if err != nil {
		return err
	}
	if err := fill(f); err != nil {
		_ = f.Close()
		return err
	}
	if err := f.Datasync(); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
