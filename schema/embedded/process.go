package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// startQuery makes the engine listen on both ports. It must stay one query: see the quota in the users file.
const startQuery = "SYSTEM START LISTEN QUERIES ALL"

// endOfInput is what a person types at the engine's prompt to leave it: the engine then shuts down in order.
const endOfInput = "\x04"

// retype is how long an engine may take to notice what was typed.
const retype = time.Second

// killedWait bounds the wait for a killed process: more than a moment means that the kernel holds it in a dead disk.
const killedWait = 10 * time.Second

// process is one run of the engine's child.
type process struct {
	pid      int
	terminal *os.File      // our side of the pseudo-terminal
	leash    *os.File      // write end: its closing tells the child that we are gone
	exited   chan struct{} // closed when the process is gone and its output drained
	err      error         // why it ended; read only after exited is closed
}

// startProcess starts the child on cfg.Dir, whose settings are written. The lock's open file goes to the child with it.
func startProcess(cfg Config, library string, lock *directoryLock, out io.Writer) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find own executable: %w", err)
	}
	terminal, tty, err := openTerminal()
	if err != nil {
		return nil, err
	}
	defer func() { _ = tty.Close() }()
	leashChild, leash, err := os.Pipe()
	if err != nil {
		_ = terminal.Close()
		return nil, fmt.Errorf("make leash: %w", err)
	}
	defer func() { _ = leashChild.Close() }()

	cmd := exec.Command(self, childArgs(cfg.Dir)...)
	cmd.Dir = cfg.Dir
	cmd.Env = childEnvironment(cfg, library)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.ExtraFiles = []*os.File{leashFD - 3: leashChild, lockFD - 3: lock.engine}
	// A session of its own: Ctrl-C in our terminal is for us, we then stop the engine in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		_, _ = terminal.Close(), leash.Close()
		return nil, fmt.Errorf("start engine: %w", err)
	}
	p := &process{pid: cmd.Process.Pid, terminal: terminal, leash: leash, exited: make(chan struct{})}
	go p.watch(cmd, out)
	return p, nil
}

func childArgs(dir string) []string {
	return []string{
		"--config-file=" + filepath.Join(dir, configFile),
		"--interactive", "--query=" + startQuery,
		// A bare terminal: nobody looks at it, and suggestions would be a second query.
		"--disable_suggestion", "--progress=off", "--progress-table=off", "--highlight=0", "--history_file=/dev/null",
	}
}

// childEnvironment hands on nothing but what a program needs to run: our own environment may hold secrets.
func childEnvironment(cfg Config, library string) []string {
	env := []string{
		childEnv + "=" + library,
		"HOME=" + cfg.Dir, "TMPDIR=" + filepath.Join(cfg.Dir, tempDir),
		"TERM=dumb", "LANG=C.UTF-8", "TZ=UTC",
		"GOMAXPROCS=1", // the Go side of the child only waits
	}
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "LD_PRELOAD"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(env, cfg.Env...)
}

// openTerminal makes a pseudo-terminal whose near side can be closed while it is read: the library opens it blocking,
// and closing a blocking file waits for its reader, which waits for the engine.
func openTerminal() (near, far *os.File, err error) {
	blocking, far, err := pty.Open()
	if err != nil {
		return nil, nil, fmt.Errorf("open terminal: %w", err)
	}
	defer func() { _ = blocking.Close() }()
	fd, err := unix.FcntlInt(blocking.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		_ = far.Close()
		return nil, nil, fmt.Errorf("open terminal: %w", err)
	}
	return os.NewFile(uintptr(fd), "terminal"), far, nil
}

// watch drains the terminal, which ends when the child closes its side, and collects the child.
func (p *process) watch(cmd *exec.Cmd, out io.Writer) {
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		_, _ = io.Copy(out, p.terminal)
	}()
	p.err = cmd.Wait()
	// What the child printed last may still be in the terminal; a program it left behind could keep that open.
	_ = p.terminal.SetReadDeadline(time.Now().Add(time.Second))
	<-drained
	_ = p.terminal.Close()
	_ = p.leash.Close()
	close(p.exited)
}

// stop ends the process: in order, or after wait by a kill. It returns once the process is gone, and says whether it
// had to be killed.
func (p *process) stop(wait time.Duration) (killed bool, err error) {
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); {
		// Typed again and again: an engine that is still starting flushes what was typed before its prompt.
		_ = p.terminal.SetWriteDeadline(time.Now().Add(retype))
		_, _ = p.terminal.WriteString(endOfInput)
		if p.waitExit(min(retype, time.Until(deadline))) {
			return false, nil
		}
	}
	return true, p.kill()
}

// kill ends the process at once, which costs it nothing that it had answered.
func (p *process) kill() error {
	if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill engine: %w", err)
	}
	if !p.waitExit(killedWait) {
		return fmt.Errorf("engine (pid %d) survives its kill", p.pid)
	}
	return nil
}

func (p *process) waitExit(wait time.Duration) bool {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	select {
	case <-p.exited:
		return true
	case <-ctx.Done():
		return false
	}
}
