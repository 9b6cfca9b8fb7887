package ingest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// fromPeer sends a beacon over a connection of its own that comes from a loopback address, 127.0.0.0/8, and returns the client's
// address as the server sees it. Headers are lines as on the wire, so that one may stand there twice.
func (r *rig) fromPeer(peer string, headers ...string) (client string) {
	r.t.Helper()
	ask := func(more string) string {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(peer)}, Timeout: 5 * time.Second}
		conn, err := dialer.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			r.t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		lines := ""
		for _, h := range append(headers, "Connection: close") {
			lines += h + "\r\n"
		}
		_, _ = io.WriteString(conn, post11("/a", lines, more))
		answer, _ := io.ReadAll(conn)
		return string(answer)
	}
	if got := ask(""); !strings.HasPrefix(got, "HTTP/1.1 202 ") || strings.Contains(got, HeaderReason+":") {
		r.t.Errorf("beacon is answered %s", got)
	}
	_, client, _ = strings.Cut(ask("X-Debug-Request: true\r\n"), `{"ip":"`)
	client, _, _ = strings.Cut(client, `"`)
	return client
}

func TestWhoTheClientIs(t *testing.T) {
	const proxy, inner, stranger = "127.0.0.251", "127.0.0.250", "127.0.0.9"
	xff := func(v string) string { return "X-Forwarded-For: " + v }
	tests := []struct {
		name, peer string
		headers    []string
		want       string
	}{
		{"nothing in front", stranger, nil, stranger},
		{"brackets and port", proxy, []string{xff("[2001:db8::1]:443")}, "2001:db8::1"},
		{"brackets", proxy, []string{xff("[2001:db8::1]")}, "2001:db8::1"},
		{"bare IPv6", proxy, []string{xff("2001:db8::1")}, "2001:db8::1"},
		{"zone", proxy, []string{xff("fe80::1%eth0")}, "fe80::1"},
		{"port behind IPv4", proxy, []string{xff("192.0.2.7:60604")}, "192.0.2.7"},
		{"IPv4 in IPv6", proxy, []string{xff("::ffff:192.0.2.7")}, "192.0.2.7"},
		{"quotes", proxy, []string{xff(`"192.0.2.7"`)}, "192.0.2.7"},
		{"the first is made up, the last is a proxy", proxy, []string{xff("192.0.2.66, 192.0.2.10, " + inner)}, "192.0.2.10"},
		{"made up on a line of its own", proxy, []string{xff("192.0.2.66"), xff("192.0.2.10")}, "192.0.2.10"},
		{"no address among them", proxy, []string{xff("unknown, , 192.0.2.10")}, "192.0.2.10"},
		{"no address on the right", proxy, []string{xff("192.0.2.10, unknown")}, "192.0.2.10"},
		{"no address at all", proxy, []string{xff("unknown")}, proxy},
		{"all are proxies", proxy, []string{xff(inner + ", " + proxy)}, inner},
		{"empty", proxy, []string{"X-Forwarded-For:"}, proxy},
		{"from a stranger", stranger, []string{xff("192.0.2.20")}, stranger},
		{"in another header", proxy, []string{"X-Real-IP: 192.0.2.20"}, proxy},
	}
	r := newRig(t, func(c *Config) { c.Proxies, _ = NewProxies([]string{proxy, inner + "/32"}, "") })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			if got := r.fromPeer(tt.peer, tt.headers...); got != tt.want {
				t.Errorf("client is %s, want %s", got, tt.want)
			}
		})
	}
	named := newRig(t, func(c *Config) { c.Proxies, _ = NewProxies([]string{"127.0.0.0/24"}, "CF-Connecting-IP") })
	if got := named.fromPeer(proxy, xff("192.0.2.1"), "CF-Connecting-IP: 192.0.2.2"); got != "192.0.2.2" {
		t.Errorf("by the header that is named the client is %s", got)
	}
}

// Ports change from connection to connection, visitors do not; and without a proxy that is trusted its visitors are one.
func TestVisitorsBehindProxies(t *testing.T) {
	tests := []struct {
		name    string
		trusted string
		from    []string
		want    int
	}{
		{"ports", "127.0.0.1", []string{"192.0.2.7:60604", "192.0.2.7:60605"}, 1},
		{"two clients", "127.0.0.1", []string{"192.0.2.20", "192.0.2.21"}, 2},
		{"not trusted", "192.0.2.250", []string{"192.0.2.20", "192.0.2.21"}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(c *Config) { c.Proxies, _ = NewProxies([]string{tt.trusted}, "") })
			for _, address := range tt.from {
				r.beacon(http.StatusAccepted, plain, from(address))
			}
			visitors := map[string]bool{}
			events := r.events()
			for _, e := range events {
				visitors[fmt.Sprint(e.Visitor)] = true
			}
			if len(events) != len(tt.from) || len(visitors) != tt.want {
				t.Errorf("%d views by %d visitors, want %d by %d", len(events), len(visitors), len(tt.from), tt.want)
			}
		})
	}
}
