package embedded

import (
	"fmt"
	"os"
)

// Identify reads the directory's ports and passwords, or chooses and keeps them, so that Writer and Reader are known
// before Run. Without it they are known once Ready has returned nil. Two processes must not identify a new directory at
// the same time.
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

// Saved tells how to connect to the engine that runs, or last ran, on the configured directory, for a process that does
// not run it. It starts and makes nothing; the error matches fs.ErrNotExist when no engine has run there.
func Saved(cfg Config) (writer, reader Connection, err error) {
	cfg = cfg.withDefaults()
	id, err := readIdentity(cfg.Dir)
	if err != nil {
		return writer, reader, err
	}
	return cfg.connection(id, writerUser, id.WriterPassword), cfg.connection(id, readerUser, id.ReaderPassword), nil
}
