package embedded

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCutDeduplicationLogs(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	for name, c := range map[string]struct{ before, after string }{
		"whole":           {"a\nb\n", "a\nb\n"},
		"torn":            {"a\nb\nc", "a\nb\n"},
		"only torn":       {"a", ""},
		"empty":           {"", ""},
		"torn long":       {"a\n" + long, "a\n"},
		"newline at step": {strings.Repeat("y", 4095) + "\n" + long[:4096], strings.Repeat("y", 4095) + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			path := filepath.Join(data, "store", "abc", "abc-1", "deduplication_logs", "deduplication_log_1.txt")
			if err := os.MkdirAll(filepath.Dir(path), privateDir); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(c.before), 0o600); err != nil {
				t.Fatal(err)
			}
			want := 0
			if c.before != c.after {
				want = 1
			}
			cut, err := cutDeduplicationLogs(data)
			if err != nil || cut != want {
				t.Errorf("cut %d logs (%v), want %d", cut, err, want)
			}
			if got := readText(t, path); got != c.after {
				t.Errorf("log is %d bytes, want %d", len(got), len(c.after))
			}
		})
	}
}
