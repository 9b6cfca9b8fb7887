//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	startWait = time.Minute
	stopWait  = time.Minute
)

// process is a server that runs beside this program.
type process struct {
	cmd    *exec.Cmd
	addr   string // host:port of its HTTP
	log    string // file with what it wrote to standard error
	exited chan error
}

// startProcess runs a server and waits for the line on its standard output that says where it listens.
func startProcess(ctx context.Context, log, binary string, args ...string) (*process, error) {
	stderr, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stderr.Close() }() // the child has its own
	p := &process{cmd: exec.Command(binary, args...), log: log, exited: make(chan error, 1)}
	p.cmd.Stderr = stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	found := make(chan string, 1)
	go p.follow(stdout, found)
	select {
	case p.addr = <-found:
	case <-time.After(startWait):
	case <-ctx.Done():
	}
	if p.addr == "" {
		p.kill()
		return nil, errors.Join(fmt.Errorf("%s does not listen: %s", binary, p.logTail()), ctx.Err())
	}
	return p, nil
}

// follow reports the address that the process names and then its end.
func (p *process) follow(stdout io.Reader, found chan<- string) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "listens on http://"); ok {
			addr, _, _ := strings.Cut(rest, " ")
			found <- addr
		}
	}
	close(found)
	p.exited <- p.cmd.Wait()
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop ends the process in order.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case err := <-p.exited:
		p.exited <- err
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", p.cmd.Path, err, p.logTail())
		}
		return nil
	case <-time.After(stopWait):
		return fmt.Errorf("%s does not stop", p.cmd.Path)
	}
}

// kill ends the process if it still runs and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	p.exited <- <-p.exited
}

// logTail is the end of what the process logged.
func (p *process) logTail() string {
	const most = 4096
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}
