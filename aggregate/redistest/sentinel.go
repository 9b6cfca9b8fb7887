package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// MasterName is what a Sentinel calls the master that it watches.
const MasterName = "tally"

// StartReplica runs a copy of master until the end of the test.
func StartReplica(t testing.TB, master *Server) *Server {
	t.Helper()
	host, port := master.HostPort()
	return Start(t, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
}

// StartSentinel runs a sentinel until the end of the test, which makes a replica the master half a second after the master is gone.
func StartSentinel(t testing.TB, master *Server) *Server {
	t.Helper()
	host, port := master.HostPort()
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	config := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 1\nsentinel down-after-milliseconds %[1]s 500\nsentinel failover-timeout %[1]s 3000\n", MasterName, host, port)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return Start(t, sentinelFile, file)
}

// sentinelFile stands before the configuration of a sentinel, which comes first on its command line.
const sentinelFile = "--sentinel-file"
