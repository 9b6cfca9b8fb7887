package embedded

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Identify reads the directory's ports and passwords, or chooses and keeps them, so that Writer and Reader are known before
// Run. Without it they are known once Ready has returned nil. No other process may choose them at the same time.
func (e *Engine) Identify() error {
	if err := os.MkdirAll(e.cfg.Dir, privateDir); err != nil {
		return fmt.Errorf("make engine directory: %w", err)
	}
	id, err := loadIdentity(e.cfg)
	if err != nil {
		return err
	}
	e.change(func() { e.identity = id })
	return nil
}

// Saved tells how to connect to the engine that runs, or last ran, on the configured directory, for a process that does not run
// it. It starts and makes nothing; the error matches fs.ErrNotExist when no engine has run there.
func Saved(cfg Config) (writer, reader Connection, err error) {
	cfg = cfg.withDefaults()
	if _, err := os.Stat(filepath.Join(cfg.Dir, identityFile)); err != nil {
		return writer, reader, fmt.Errorf("find engine identity: %w", err)
	}
	id, err := loadIdentity(cfg)
	if err != nil {
		return writer, reader, err
	}
	if id.WriterPassword == "" {
		return writer, reader, fmt.Errorf("engine identity is empty: %w", fs.ErrNotExist)
	}
	e := Engine{cfg: cfg}
	return e.connection(id, writerUser, id.WriterPassword), e.connection(id, readerUser, id.ReaderPassword), nil
}
