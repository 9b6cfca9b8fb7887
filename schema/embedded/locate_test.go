package embedded

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// elfHeader is a shared library's header and nothing else, for a processor (ELF's e_machine).
func elfHeader(machine uint16) []byte {
	h := make([]byte, 64)
	copy(h, "\x7fELF\x02\x01\x01")
	binary.LittleEndian.PutUint16(h[16:], 3) // e_type: shared object
	binary.LittleEndian.PutUint16(h[18:], machine)
	binary.LittleEndian.PutUint32(h[20:], 1)
	binary.LittleEndian.PutUint16(h[52:], 64) // e_ehsize
	binary.LittleEndian.PutUint16(h[58:], 64) // e_shentsize
	return h
}

func TestLocateExplicit(t *testing.T) {
	here, other := uint16(62), uint16(183) // x86-64, AArch64
	if runtime.GOARCH == "arm64" {
		here, other = other, here
	}
	dir := t.TempDir()
	for name, c := range map[string]struct {
		content []byte
		want    error // nil: found
	}{
		"fits.so":  {elfHeader(here), nil},
		"other.so": {elfHeader(other), ErrWrongPlatform},
		"riscv.so": {elfHeader(243), ErrWrongPlatform},
		"text.so":  {[]byte("not a library"), ErrBadLibrary},
		"empty.so": {nil, ErrBadLibrary},
	} {
		if runtime.GOOS != "linux" && c.want == nil {
			continue
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, c.content, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Locate(path)
		if !errors.Is(err, c.want) || c.want == nil && got != path {
			t.Errorf("Locate(%s) = %q, %v, want %v", name, got, err, c.want)
		}
	}
	if _, err := Locate(dir); !errors.Is(err, ErrBadLibrary) {
		t.Errorf("Locate of a directory: %v, want ErrBadLibrary", err)
	}
}

func TestMissingLibraryNamesTheCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv(LibraryEnv, "")
	for _, explicit := range []string{"", "nowhere.so"} {
		_, err := Locate(explicit)
		if !errors.Is(err, ErrLibraryMissing) || !strings.Contains(err.Error(), "npm ci --prefix deployments/embedded") {
			t.Errorf("Locate(%q) = %v, want ErrLibraryMissing with advice", explicit, err)
		}
	}
}

func TestLocateInTheCurrentDirectory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the made-up library is a Linux one")
	}
	pkg, err := packageName(runtime.GOOS, runtime.GOARCH)
	if err != nil {
		t.Skip(err)
	}
	machine := uint16(62)
	if runtime.GOARCH == "arm64" {
		machine = 183
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "deployments", "embedded", "node_modules", "@chdb", pkg, libraryName)
	if err := os.MkdirAll(filepath.Dir(path), privateDir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, elfHeader(machine), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	t.Setenv(LibraryEnv, "")
	if got, err := Locate(""); err != nil || !strings.HasSuffix(got, path) {
		t.Errorf("Locate = %q, %v, want %q", got, err, path)
	}
	t.Setenv(LibraryEnv, filepath.Join(dir, "elsewhere.so"))
	if _, err := Locate(""); !errors.Is(err, ErrLibraryMissing) {
		t.Errorf("a wrong %s is passed over: %v", LibraryEnv, err)
	}
}

func TestPackageNames(t *testing.T) {
	for platform, ok := range map[string]bool{
		"linux/amd64": true, "linux/arm64": true, "darwin/arm64": true, "darwin/amd64": true,
		"linux/386": false, "windows/amd64": false,
	} {
		goos, goarch, _ := strings.Cut(platform, "/")
		if _, err := packageName(goos, goarch); (err == nil) != ok || err != nil && !errors.Is(err, ErrWrongPlatform) {
			t.Errorf("package for %s: %v, want ok = %v", platform, err, ok)
		}
	}
}
