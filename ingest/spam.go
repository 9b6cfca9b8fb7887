package ingest

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
)

//go:embed spam.txt
var spamLines string

// maxSpamList bounds a spam list's file, in bytes.
const maxSpamList = 8 << 20

// SpamList knows the hosts whose referrers are spam: the built-in ones, and those of a file, which changes while events arrive. It is
// safe for concurrent use.
type SpamList struct {
	path  string // empty: the built-in hosts alone
	log   *slog.Logger
	hosts atomic.Pointer[spamHosts]
	file  fs.FileInfo // Run: the edition in use
}

// OpenSpamList reads the file at path: hosts, one a line, with blank lines and comments that begin with "#"; at most 8 MiB.
func OpenSpamList(path string, log *slog.Logger) (*SpamList, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	l := &SpamList{path: path, log: log}
	return l, l.refresh()
}

// builtInSpam is the list without a file.
func builtInSpam() *SpamList {
	l := &SpamList{}
	hosts := newSpamHosts(nil)
	l.hosts.Store(&hosts)
	return l
}

// Run takes over new editions of the file, within refreshPeriod, until ctx ends. While it cannot be read the last one is used.
func (l *SpamList) Run(ctx context.Context) error {
	return keepRefreshed(ctx, "spam list", l.log, func(context.Context) error { return l.refresh() })
}

// refresh reads the file if it is another than the one in use. One that changes while it is read is read again the next time.
func (l *SpamList) refresh() error {
	info, err := os.Stat(l.path)
	if err != nil {
		return err
	}
	if old := l.file; old != nil && os.SameFile(old, info) && old.Size() == info.Size() && old.ModTime().Equal(info.ModTime()) {
		return nil
	}
	more, err := readSpamList(l.path)
	if err != nil {
		return err
	}
	hosts := newSpamHosts(more)
	l.hosts.Store(&hosts)
	if l.file != nil {
		l.log.Info("spam list changed", "file", l.path, "hosts", len(more))
	}
	l.file = info
	return nil
}

func (l *SpamList) has(host string) bool { return l.hosts.Load().has(host) }

// spamHosts are hosts in canonical form whose referrers are spam. Each stands for its subdomains too.
type spamHosts map[string]struct{}

func newSpamHosts(more []string) spamHosts {
	hosts := make(spamHosts)
	for _, list := range [][]string{lines(spamLines), more} {
		for _, host := range list {
			hosts[canonicalHost(host)] = struct{}{}
		}
	}
	return hosts
}

func (s spamHosts) has(host string) bool {
	for {
		_, rest, ok := strings.Cut(host, ".")
		if !ok {
			return false // no list holds a whole top-level domain
		}
		if _, spam := s[host]; spam {
			return true
		}
		host = rest
	}
}

// readSpamList reads a file of hosts, one a line; blank lines and those that begin with "#" do not count. At most maxSpamList bytes.
func readSpamList(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxSpamList+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxSpamList {
		return nil, fmt.Errorf("%s is over %d bytes", path, maxSpamList)
	}
	hosts := lines(string(text))
	for _, host := range hosts {
		if !validDomain(host) || strings.Contains(host, "/") {
			return nil, fmt.Errorf("%s: %.100q is no host", path, host)
		}
	}
	return hosts, nil
}
