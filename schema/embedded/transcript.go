package embedded

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// transcript keeps what the engine prints on its terminal: in a file, and its end in memory for error messages. It
// never fails: a full disk must not stop the engine from being drained, which would block it.
type transcript struct {
	path string

	mu      sync.Mutex
	file    *os.File // nil when it cannot be written
	written int64
	tail    []byte
}

const (
	transcriptFile  = "terminal.log"
	transcriptLimit = 4 << 20 // bytes in the file before it is moved to terminal.log.1
	tailLimit       = 4 << 10 // bytes kept for messages
)

func openTranscript(dir string) (*transcript, error) {
	t := &transcript{path: filepath.Join(dir, transcriptFile)}
	file, err := os.OpenFile(t.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, secretMode)
	if err != nil {
		return nil, fmt.Errorf("open terminal log: %w", err)
	}
	t.file = file
	t.written, _ = file.Seek(0, io.SeekEnd)
	return t, nil
}

// Write takes everything and reports no error.
func (t *transcript) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tail = append(t.tail, p...)
	if extra := len(t.tail) - tailLimit; extra > 0 {
		t.tail = append(t.tail[:0], t.tail[extra:]...)
	}
	if t.written > transcriptLimit {
		t.rotateLocked()
	}
	if t.file != nil {
		n, _ := t.file.Write(p)
		t.written += int64(n)
	}
	return len(p), nil
}

func (t *transcript) rotateLocked() {
	_ = t.file.Close()
	_ = os.Rename(t.path, t.path+".1")
	t.file, _ = os.OpenFile(t.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, secretMode)
	t.written = 0
}

// forget empties the tail, so that the next one tells of one start only.
func (t *transcript) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tail = t.tail[:0]
}

var terminalCodes = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x09\x0b-\x1f]`)

// lastLines is the end of the output as plain text on one line, for a message.
func (t *transcript) lastLines() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	const lines = 8
	var last []string
	for line := range strings.Lines(terminalCodes.ReplaceAllString(string(t.tail), "")) {
		if line = strings.TrimSpace(line); line != "" {
			last = append(last, line)
		}
	}
	return strings.Join(last[max(0, len(last)-lines):], " | ")
}

func (t *transcript) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file != nil {
		_ = t.file.Close()
		t.file = nil
	}
}
