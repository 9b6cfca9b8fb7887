package embeddedtest

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/pagetally/pagetally/schema/embedded"
)

// shared is the one engine of a test binary. It is made by the first test that asks and lives until Main ends, since no
// single test owns it.
var shared struct {
	once   sync.Once
	dir    string
	server *Server
	err    error
}

// Main runs a package's tests and ends the shared engine; it is all a TestMain has to call. It does not return.
func Main(m *testing.M) {
	embedded.RunChildIfAsked()
	code := m.Run()
	if err := endShared(); err != nil {
		fmt.Fprintln(os.Stderr, "end shared engine:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Shared returns the package's engine, started on first use. Tests keep to databases of their own and must not kill it.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.once.Do(func() { shared.server, shared.dir, shared.err = startShared() })
	if shared.err != nil {
		t.Fatalf("start shared engine: %v", shared.err)
	}
	return shared.server
}

func startShared() (*Server, string, error) {
	dir, err := os.MkdirTemp("", "pagetally-engine-")
	if err != nil {
		return nil, "", err
	}
	cfg, err := newConfig(dir)
	if err != nil {
		return nil, dir, err
	}
	server, err := start(cfg)
	return server, dir, err
}

func endShared() error {
	if shared.server != nil {
		if err := shared.server.Kill(); err != nil { // nobody wants its data: a clean stop would only take longer
			return err
		}
	}
	if shared.dir == "" {
		return nil
	}
	return os.RemoveAll(shared.dir)
}
