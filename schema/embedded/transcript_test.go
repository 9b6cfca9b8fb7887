package embedded

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestTranscriptKeepsTheEndAndStaysSmall(t *testing.T) {
	dir := t.TempDir()
	out, err := openTranscript(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer out.close()
	chunk := bytes.Repeat([]byte("0123456789abcde\n"), 4096) // 64 KiB
	for range 3 * transcriptLimit / len(chunk) {
		_, _ = out.Write(chunk)
	}
	_, _ = out.Write([]byte("\x1b[2J\x1b[?25hCode: 1.\r\n\r\n  the end\r\n"))
	if got, want := out.lastLines()[len(out.lastLines())-len("Code: 1. | the end"):], "Code: 1. | the end"; got != want {
		t.Errorf("last lines end in %q, want %q", got, want)
	}
	for _, name := range []string{transcriptFile, transcriptFile + ".1"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if limit := int64(transcriptLimit + 2*len(chunk)); info.Size() > limit {
			t.Errorf("%s has %d bytes, want at most %d", name, info.Size(), limit)
		}
	}
	out.forget()
	if got := out.lastLines(); got != "" {
		t.Errorf("after forget: %q, want nothing", got)
	}
}
