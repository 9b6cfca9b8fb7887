package ingest

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"strings"
)

//go:embed spam.txt
var spamLines string

// maxSpamList bounds a spam list's file, in bytes.
const maxSpamList = 8 << 20

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

// ReadSpamList reads a file of hosts, one a line; blank lines and those that begin with "#" do not count. At most 8 MiB.
func ReadSpamList(path string) ([]string, error) {
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
