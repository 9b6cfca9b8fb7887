package embedded

import (
	"errors"
	"testing"
)

func TestNewChecksTheConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		good bool
		want error // when not good; nil: any
	}{
		"minimal":                    {cfg: Config{Dir: "d"}, good: true},
		"no directory":               {cfg: Config{}},
		"IPv6 loopback":              {cfg: Config{Dir: "d", ListenHost: "::1"}, good: true},
		"exposed without a password": {cfg: Config{Dir: "d", ListenHost: "0.0.0.0"}, want: ErrPasswordNeeded},
		"exposed IPv6, no password":  {cfg: Config{Dir: "d", ListenHost: "::"}, want: ErrPasswordNeeded},
		"exposed with a password":    {cfg: Config{Dir: "d", ListenHost: "192.0.2.1", ReaderPassword: "long enough"}, good: true},
		"short password":             {cfg: Config{Dir: "d", ReaderPassword: "short"}},
		"host name":                  {cfg: Config{Dir: "d", ListenHost: "localhost"}},
		"negative port":              {cfg: Config{Dir: "d", TCPPort: -1}},
		"port beyond 16 bits":        {cfg: Config{Dir: "d", HTTPPort: 65536}},
		"one port for both":          {cfg: Config{Dir: "d", TCPPort: 9000, HTTPPort: 9000}},
		"database that is no name":   {cfg: Config{Dir: "d", Database: "x; DROP DATABASE y"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(c.cfg)
			if c.good != (err == nil) || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("New: %v, want good = %v, error %v", err, c.good, c.want)
			}
		})
	}
}

func TestConnection(t *testing.T) {
	id := identity{TCPPort: 1, HTTPPort: 2}
	for host, want := range map[string]Connection{
		"":          {Addr: "127.0.0.1:1", HTTPAddr: "127.0.0.1:2"},
		"0.0.0.0":   {Addr: "127.0.0.1:1", HTTPAddr: "127.0.0.1:2"},
		"::1":       {Addr: "[::1]:1", HTTPAddr: "[::1]:2"},
		"192.0.2.1": {Addr: "192.0.2.1:1", HTTPAddr: "192.0.2.1:2"},
	} {
		cfg := Config{ListenHost: host}.withDefaults()
		want.User, want.Password, want.Database = "u", "p", Database
		if got := cfg.connection(id, "u", "p"); got != want {
			t.Errorf("connection on %q = %+v, want %+v", host, got, want)
		}
	}
}

func TestVersions(t *testing.T) {
	for version, ok := range map[string]bool{
		"26.7.2.1": true, "26.7": true, "26.10.1.1": true, "27.1.0": true,
		"26.6.9.9": false, "25.12.1": false, "": false, "x.y": false,
	} {
		if err := checkVersion(version); (err == nil) != ok || err != nil && !errors.Is(err, ErrTooOld) {
			t.Errorf("checkVersion(%q) = %v, want ok = %v", version, err, ok)
		}
	}
}
