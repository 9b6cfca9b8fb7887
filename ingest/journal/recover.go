package journal

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// load fills the catalogue from the folders, removes left-over temporary files and lists what a crash left in open/.
func (c *committer) load() error {
	for s := range numStates {
		files, err := c.sweep(stateDir(c.opts.Dir, s))
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := c.enter(s, file); err != nil {
				return err
			}
		}
	}
	for _, folder := range looseFolders {
		files, err := c.sweep(filepath.Join(c.opts.Dir, folder))
		if err != nil {
			return err
		}
		for _, file := range files {
			c.cat.putFile(filepath.Join(folder, file.Name), file.Size)
		}
	}
	return nil
}

// sweep makes a folder if need be, removes its temporary files and returns the others.
func (c *committer) sweep(dir string) ([]FileInfo, error) {
	if err := c.opts.FS.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("make journal folder: %w", err)
	}
	all, err := c.opts.FS.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read journal folder: %w", err)
	}
	files := all[:0]
	for _, file := range all {
		if !strings.HasSuffix(file.Name, tempSuffix) {
			files = append(files, file)
			continue
		}
		if err := c.opts.FS.Remove(filepath.Join(dir, file.Name)); err != nil {
			return nil, fmt.Errorf("remove temporary file: %w", err)
		}
	}
	return files, nil
}

func (c *committer) enter(s State, file FileInfo) error {
	id, ok := segmentID(file.Name)
	if !ok {
		c.log.Warn("foreign file in journal", "folder", s.String(), "file", file.Name)
		return nil
	}
	c.ids.raise(id)
	if s == StateOpen {
		c.cat.put(Info{ID: id, State: s, Bytes: file.Size})
		c.leftovers = append(c.leftovers, &leftover{header: header{id: id}, cause: sealMended})
		return nil
	}
	info, err := readInfo(c.opts.FS, c.opts.Dir, s, id)
	if err != nil {
		return fmt.Errorf("read segment %s: %w", id, err)
	}
	if info.Damaged {
		c.log.Error("damaged segment", "folder", s.String(), "segment", id.String(), "bytes", info.Bytes)
	}
	c.cat.put(info)
	return nil
}

// examine finds out what a crash left of a segment.
func (c *committer) examine(l *leftover) error {
	b, err := readAll(c.opts.FS, segmentPath(c.opts.Dir, StateOpen, l.id))
	if err != nil {
		return c.unread(l, err)
	}
	s, err := scan(b, l.id)
	switch {
	case errors.Is(err, ErrVersion):
		return err
	case err != nil && (len(b) < headerSize || allZero(b)):
		l.scanned = true // its header never reached the disk, so nothing in it was acknowledged: no frames to keep
		c.torn(l, int64(len(b)), err)
		return nil
	case err != nil:
		c.log.Error("segment without header, moved to quarantine", "segment", l.id.String(), "bytes", len(b), "err", err)
		return c.quarantine(l)
	}
	if s.torn > 0 {
		c.torn(l, s.torn, s.cause)
	}
	// Not even a footer says that the bytes before it are durable: the process may have died before its fdatasync
	// ended, or after it failed. So l.complete stays false, and the file is copied.
	l.header, l.tally, l.scanned = s.header, s.tally, true
	c.cat.put(newInfo(l.header, l.tally, StateOpen, int64(len(b))))
	return nil
}

// torn reports bytes that are cut off. After a crash they are the beginning of a group that nobody was told is stored.
func (c *committer) torn(l *leftover, n int64, cause error) {
	c.metrics.tornTails.Inc()
	c.metrics.tornBytes.Add(float64(n))
	var at int64
	var corrupt *CorruptError
	if errors.As(cause, &corrupt) {
		at = corrupt.Offset
	}
	c.log.Warn("torn segment cut at its last whole frame", "segment", l.id.String(), "at", at, "bytes", n, "err", cause)
}

func allZero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
