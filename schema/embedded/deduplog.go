package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// cutDeduplicationLogs cuts each table's deduplication log at its last newline and returns how many it cut.
//
// A kill in the middle of a record leaves it without a newline; the engine then appends the next record to the same
// line and knows neither token any more, so that a repeated insert would count twice. The record cut off belongs to an
// insert that was never answered.
func cutDeduplicationLogs(data string) (int, error) {
	logs, err := filepath.Glob(filepath.Join(data, "store", "*", "*", "deduplication_logs", "deduplication_log_*.txt"))
	if err != nil {
		return 0, fmt.Errorf("find deduplication logs: %w", err)
	}
	cut := 0
	for _, path := range logs {
		torn, err := cutTornLine(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a table dropped before the kill
		}
		if err != nil {
			return cut, fmt.Errorf("cut deduplication log: %w", err)
		}
		if torn {
			cut++
		}
	}
	return cut, nil
}

// cutTornLine truncates a file behind its last newline and says whether that changed it. It reads from the end: a log
// of 100,000 tokens is long, a record is short.
func cutTornLine(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return false, err
	}
	end, err := endOfLastLine(f, size)
	if err != nil || end == size {
		return false, err
	}
	if err := f.Truncate(end); err != nil {
		return false, err
	}
	return true, f.Sync()
}

// endOfLastLine is the offset behind the last newline, 0 when there is none.
func endOfLastLine(f io.ReaderAt, size int64) (int64, error) {
	const step = 4096
	buf := make([]byte, step)
	for end := size; end > 0; {
		start := max(0, end-step)
		chunk := buf[:end-start]
		if _, err := f.ReadAt(chunk, start); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(chunk, '\n'); i >= 0 {
			return start + int64(i) + 1, nil
		}
		end = start
	}
	return 0, nil
}
