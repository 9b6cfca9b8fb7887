package embedded

import (
	"debug/elf"
	"debug/macho"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// LibraryEnv names the environment variable that holds the library's path.
const LibraryEnv = "PAGETALLY_ENGINE_LIB"

// libraryName is the same on every platform the packages are made for, macOS included.
const libraryName = "libchdb.so"

const fetchAdvice = "fetch it with `npm ci --prefix deployments/embedded`, or name its path with --engine-lib or " + LibraryEnv

// Locate returns the path of the engine's library. explicit, when not empty, is taken or refused; then comes the
// environment variable LibraryEnv; then, beside the executable and in the current directory, the file itself and
// deployments/embedded/node_modules. The file's header is checked, its contents are not.
//
// It fails with ErrLibraryMissing, ErrBadLibrary or ErrWrongPlatform.
func Locate(explicit string) (string, error) {
	if explicit == "" {
		explicit = os.Getenv(LibraryEnv)
	}
	if explicit != "" {
		return checkedLibrary(explicit)
	}
	pkg, err := packageName(runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return "", err
	}
	for _, dir := range searchRoots() {
		for _, candidate := range []string{
			filepath.Join(dir, libraryName),
			filepath.Join(dir, "node_modules", "@chdb", pkg, libraryName),
			filepath.Join(dir, "deployments", "embedded", "node_modules", "@chdb", pkg, libraryName),
		} {
			if _, err := os.Stat(candidate); err == nil {
				return checkedLibrary(candidate)
			}
		}
	}
	return "", fmt.Errorf("%w: %s", ErrLibraryMissing, fetchAdvice)
}

// searchRoots are the executable's directory and the current one; neither is known for sure.
func searchRoots() []string {
	var roots []string
	if exe, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			exe = real
		}
		roots = append(roots, filepath.Dir(exe))
	}
	if cwd, err := os.Getwd(); err == nil {
		roots = append(roots, cwd)
	}
	return roots
}

// packageName is the npm package, without its scope, that carries the library for a platform in Go's words.
func packageName(goos, goarch string) (string, error) {
	switch goos + "/" + goarch {
	case "linux/amd64":
		return "lib-linux-x64-gnu", nil
	case "linux/arm64":
		return "lib-linux-arm64-gnu", nil
	case "darwin/arm64":
		return "lib-darwin-arm64", nil
	case "darwin/amd64":
		return "lib-darwin-x64", nil
	}
	return "", fmt.Errorf("%w: none is made for %s/%s; connect to a ClickHouse server instead", ErrWrongPlatform, goos, goarch)
}

func checkedLibrary(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("library path: %w", err)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: no file %s; %s", ErrLibraryMissing, path, fetchAdvice)
	}
	if err != nil {
		return "", fmt.Errorf("library: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%w: %s is not a file", ErrBadLibrary, path)
	}
	platform, err := libraryPlatform(path)
	if err != nil {
		return "", fmt.Errorf("%w: %s is not a shared library; %s", ErrBadLibrary, path, fetchAdvice)
	}
	if here := runtime.GOOS + "/" + runtime.GOARCH; platform != here {
		return "", fmt.Errorf("%w: %s is made for %s, this program for %s; %s", ErrWrongPlatform, path, platform, here, fetchAdvice)
	}
	return path, nil
}

// libraryPlatform reads from a shared library's header which GOOS/GOARCH it is for. An unknown processor is named as
// the header has it.
func libraryPlatform(path string) (string, error) {
	if f, err := elf.Open(path); err == nil {
		defer func() { _ = f.Close() }()
		if f.Type != elf.ET_DYN {
			return "", errors.New("not a shared object")
		}
		switch f.Machine {
		case elf.EM_X86_64:
			return "linux/amd64", nil
		case elf.EM_AARCH64:
			return "linux/arm64", nil
		}
		return "linux/" + f.Machine.String(), nil
	}
	f, err := macho.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	switch f.Cpu {
	case macho.CpuAmd64:
		return "darwin/amd64", nil
	case macho.CpuArm64:
		return "darwin/arm64", nil
	}
	return "darwin/" + f.Cpu.String(), nil
}
