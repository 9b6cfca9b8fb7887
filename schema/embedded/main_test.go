package embedded_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/pagetally/pagetally/schema/embedded"
	"github.com/pagetally/pagetally/schema/embedded/embeddedtest"
)

// parentEnv makes the test binary run an engine on the directory it names until it is killed.
const parentEnv = "PAGETALLY_TEST_PARENT"

func TestMain(m *testing.M) {
	embedded.RunChildIfAsked()
	if dir := os.Getenv(parentEnv); dir != "" {
		fmt.Fprintln(os.Stderr, runParent(dir))
		os.Exit(1)
	}
	embeddedtest.Main(m)
}

// runParent prints the engine's pid once it answers and then waits to be killed.
func runParent(dir string) error {
	library, err := embeddedtest.Library()
	if err != nil {
		return err
	}
	engine, err := embedded.New(embedded.Config{Dir: dir, Library: library})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	if err := engine.Ready(ctx); err != nil {
		return err
	}
	fmt.Println(engine.PID())
	return <-ended
}
