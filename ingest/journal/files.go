package journal

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// FolderDecisions is where the delivery keeps its decisions. The journal only stores them.
const FolderDecisions = "decisions"

var looseFolders = []string{FolderDecisions}

// ErrNoFile is returned by ReadFile for a file that does not exist.
var ErrNoFile = errors.New("no such file in journal")

// WriteFile makes content the file name of folder, which is FolderDecisions, replacing an older one in one step. It
// returns once that is durable. After an error the file is as before, or already new but not surely durable: write again.
// What the content is worth is the caller's to check. The disk limit does not apply.
func (j *Journal) WriteFile(folder, name string, content []byte) error {
	path, err := j.loosePath(folder, name)
	if err != nil {
		return err
	}
	if j.closed.Load() {
		return ErrClosed
	}
	if err := writeWhole(j.opts.FS, path, j.tempName(path), content); err != nil {
		return j.fileError(opCopy, "write file", err)
	}
	j.cat.putFile(filepath.Join(folder, name), int64(len(content)))
	return nil
}

// ReadFile returns the content of a file, or ErrNoFile.
func (j *Journal) ReadFile(folder, name string) ([]byte, error) {
	path, err := j.loosePath(folder, name)
	if err != nil {
		return nil, err
	}
	b, err := readAll(j.opts.FS, path)
	switch {
	case notExist(err):
		return nil, fmt.Errorf("%w: %s", ErrNoFile, name)
	case err != nil:
		return nil, j.fileError(opRead, "read file", err)
	}
	return b, nil
}

// RemoveFile deletes a file, durably. Removing one that is gone is no error.
func (j *Journal) RemoveFile(folder, name string) error {
	path, err := j.loosePath(folder, name)
	if err != nil {
		return err
	}
	if j.closed.Load() {
		return ErrClosed
	}
	if err := j.opts.FS.Remove(path); err != nil && !notExist(err) {
		return j.fileError(opRemove, "remove file", err)
	}
	j.cat.putFile(filepath.Join(folder, name), -1)
	if err := j.opts.FS.SyncDir(filepath.Dir(path)); err != nil {
		return j.fileError(opSyncDir, "sync journal folder", err)
	}
	return nil
}

// ListFiles returns the names of a folder's files in rising order. It makes no file calls.
func (j *Journal) ListFiles(folder string) ([]string, error) {
	if !slices.Contains(looseFolders, folder) {
		return nil, fmt.Errorf("journal has no folder %q", folder)
	}
	return j.cat.fileNames(folder), nil
}

func (j *Journal) loosePath(folder, name string) (string, error) {
	if !slices.Contains(looseFolders, folder) {
		return "", fmt.Errorf("journal has no folder %q", folder)
	}
	if name == "" || name[0] == '.' || strings.ContainsAny(name, "/\\\x00") || strings.HasSuffix(name, tempSuffix) {
		return "", fmt.Errorf("bad file name %q", name)
	}
	return filepath.Join(j.opts.Dir, folder, name), nil
}
