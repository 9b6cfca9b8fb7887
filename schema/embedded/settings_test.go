package embedded

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

// TestSettingsFiles compares the rendered files with the golden ones. The directory is replaced by DIR.
func TestSettingsFiles(t *testing.T) {
	id := identity{TCPPort: 20001, HTTPPort: 20002, WriterPassword: "writer's <secret>", ReaderPassword: "reader secret"}
	for name, cfg := range map[string]Config{
		"default": {},
		"exposed": {ListenHost: "0.0.0.0", ReaderPassword: id.ReaderPassword, MemoryLimit: 1 << 30, NoFsync: true, Database: "stats"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cfg.Dir = dir
			if err := writeSettings(cfg.withDefaults(), id); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{configFile, usersFile} {
				got := strings.ReplaceAll(readText(t, filepath.Join(dir, file)), dir, "DIR")
				checkXML(t, file, got)
				for _, secret := range []string{"secret"} {
					if strings.Contains(got, secret) {
						t.Errorf("%s holds a password", file)
					}
				}
				golden := filepath.Join("testdata", name+"."+file)
				if *update {
					if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				if diff := cmp.Diff(readText(t, golden), got); diff != "" {
					t.Errorf("%s differs from %s (-want +got):\n%s", file, golden, diff)
				}
			}
		})
	}
}

// TestPathsAreEscaped: a directory may hold what means something in XML.
func TestPathsAreEscaped(t *testing.T) {
	dir := filepath.Join(t.TempDir(), `a & <b>`)
	if err := os.Mkdir(dir, privateDir); err != nil {
		t.Fatal(err)
	}
	if err := writeSettings(Config{Dir: dir}.withDefaults(), identity{}); err != nil {
		t.Fatal(err)
	}
	var read struct {
		Path string `xml:"path"`
	}
	if err := xml.Unmarshal([]byte(readText(t, filepath.Join(dir, configFile))), &read); err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(dir, dataDir) + "/"; read.Path != want {
		t.Errorf("path = %q, want %q", read.Path, want)
	}
}

func checkXML(t *testing.T, name, text string) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s is no XML: %v", name, err)
		}
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
