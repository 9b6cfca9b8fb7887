package chaos

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/pagetally/pagetally/schema/embedded"
)

var (
	seedFlag   = flag.Uint64("chaos.seed", 0, "seed of all choices; 0 takes one from the clock")
	roundsFlag = flag.Int("chaos.rounds", 0, "rounds of kills; 0 means 30, or 300 under PAGETALLY_TORTURE")
)

// binary and library are what the tests run: built once, found once.
var binary, library string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "chaos")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// build makes the binary as it is released, so without the race detector: memory and timing are to be the real ones.
func build(dir string) error {
	root, err := filepath.Abs("../../..")
	if err != nil {
		return err
	}
	if err := os.Chdir(root); err != nil { // Locate looks from here
		return err
	}
	if library, err = embedded.Locate(""); err != nil {
		return err
	}
	binary = filepath.Join(dir, "pagetally")
	cmd := exec.Command("go", "build", "-o", binary, "./cmd/pagetally")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// torture says whether the tests run at their full length.
func torture() bool { return os.Getenv("PAGETALLY_TORTURE") != "" }

// seed is of one test run; the same for all of its tests.
func seed() uint64 {
	if *seedFlag == 0 {
		*seedFlag = uint64(time.Now().UnixNano())
	}
	return *seedFlag
}

func rounds() int {
	switch {
	case *roundsFlag > 0:
		return *roundsFlag
	case torture():
		return 300
	}
	return 30
}
