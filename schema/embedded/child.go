package embedded

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
)

const (
	// childEnv holds the library's path and makes the process the engine's child.
	childEnv = "PAGETALLY_ENGINE_CHILD"

	// Descriptors the parent hands down beside the terminal.
	leashFD = 3 // read end of a pipe whose write end only the parent holds
	lockFD  = 4 // the directory's lock: it stays locked until parent and child are both gone

	// orphanGrace is how long an engine whose parent died may take to end by itself before it is killed. Inserts are
	// fsynced, so a kill costs nothing but time at the next start.
	orphanGrace = 20 * time.Second

	exitNoLibrary = 71 // the child's exit code when the library cannot be loaded
	loadFailed    = "load engine"
	entryPoint    = "chdb_query_cmdline"
)

// RunChildIfAsked turns the process into the engine when it was started as the engine's child, and then never returns.
// It is the first line of main and of every TestMain that starts an engine.
func RunChildIfAsked() {
	library := os.Getenv(childEnv)
	if library == "" {
		return
	}
	_ = os.Unsetenv(childEnv) // the engine starts no program of ours, but would hand it on
	syscall.CloseOnExec(leashFD)
	syscall.CloseOnExec(lockFD)
	go endWithParent()
	os.Exit(runLibrary(library, append([]string{"clickhouse"}, os.Args[1:]...)))
}

// endWithParent waits for the parent's end and kills this process when it does not follow by itself in time. The
// terminal has been hung up by then, which ends an idle engine at once and a busy one later.
func endWithParent() {
	leash := os.NewFile(leashFD, "leash")
	_, _ = io.Copy(io.Discard, leash) // nothing is ever written: it ends when the parent does
	<-time.After(orphanGrace)
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// runLibrary calls `clickhouse local` in the library and returns its exit code. It keeps its thread: the library holds
// thread-local state.
func runLibrary(path string, args []string) int {
	runtime.LockOSThread()
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		fmt.Fprintln(os.Stderr, loadFailed+":", err)
		return exitNoLibrary
	}
	entry, err := purego.Dlsym(handle, entryPoint)
	if err != nil {
		fmt.Fprintln(os.Stderr, loadFailed+":", err)
		return exitNoLibrary
	}
	var cmdline func(argc int32, argv unsafe.Pointer) int32
	purego.RegisterFunc(&cmdline, entry)

	argv := make([]*byte, len(args)+1) // C wants a closing NULL
	for i, arg := range args {
		text := append([]byte(arg), 0)
		argv[i] = &text[0]
	}
	code := cmdline(int32(len(args)), unsafe.Pointer(&argv[0]))
	runtime.KeepAlive(argv)
	return int(code)
}
