package ingest

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"

	"github.com/valyala/fasthttp"
)

// Proxies are the peers whose forwarded addresses are believed, rule R6. The zero value believes nobody.
type Proxies struct {
	trusted []netip.Prefix
	header  string
}

// NewProxies parses addresses and prefixes ("10.0.0.0/8", "::1"). header, when not empty, is the one header that names the client
// instead of X-Forwarded-For.
func NewProxies(trusted []string, header string) (*Proxies, error) {
	p := &Proxies{header: header}
	for _, text := range trusted {
		prefix, err := parsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("trusted proxy %q: %w", text, err)
		}
		p.trusted = append(p.trusted, prefix)
	}
	return p, nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	if strings.Contains(text, "/") {
		prefix, err := netip.ParsePrefix(text)
		return prefix.Masked(), err
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, err
	}
	addr = addr.Unmap()
	return netip.PrefixFrom(addr, addr.BitLen()), nil
}

func (p *Proxies) trusts(addr netip.Addr) bool {
	for _, prefix := range p.trusted {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// Header is the name of the header that carries the client's address.
func (p *Proxies) Header() string {
	if p.header == "" {
		return "X-Forwarded-For"
	}
	return p.header
}

// forwarded is what the header says, empty when nobody may say anything. Its lines are one list: a proxy may add a line of its own
// below one that the browser made up.
func (p *Proxies) forwarded(header *fasthttp.RequestHeader) string {
	if len(p.trusted) == 0 {
		return ""
	}
	lines := header.PeekAll(p.Header())
	switch len(lines) {
	case 0:
		return ""
	case 1:
		return text(lines[0])
	}
	return text(bytes.Join(lines, []byte(",")))
}

// Client is the address of the client behind peer: the first valid one from the right of forwarded that is no trusted proxy. An
// untrusted peer is the client itself; so is a trusted one whose header names nobody.
func (p *Proxies) Client(peer netip.Addr, forwarded string) netip.Addr {
	peer = peer.Unmap().WithZone("")
	if forwarded == "" || len(p.trusted) == 0 || !p.trusts(peer) {
		return peer
	}
	client := peer
	for rest := forwarded; rest != ""; {
		i := strings.LastIndexByte(rest, ',')
		text := rest[i+1:]
		rest = rest[:max(i, 0)]
		addr, ok := parseAddress(text)
		if !ok {
			continue
		}
		client = addr
		if !p.trusts(addr) {
			break
		}
	}
	return client
}

// parseAddress reads an address with or without port and brackets.
func parseAddress(text string) (netip.Addr, bool) {
	text = strings.Trim(strings.TrimSpace(text), `"`)
	if host, ok := strings.CutPrefix(text, "["); ok {
		text, _, _ = strings.Cut(host, "]")
	} else if strings.Count(text, ":") == 1 {
		text, _, _ = strings.Cut(text, ":")
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, false
	}
	return addr.Unmap().WithZone(""), true
}
