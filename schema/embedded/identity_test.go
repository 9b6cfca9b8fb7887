package embedded

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func TestIdentityIsKept(t *testing.T) {
	cfg := Config{Dir: t.TempDir()}.withDefaults()
	if _, _, err := Saved(cfg); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Saved before the first start: %v, want fs.ErrNotExist", err)
	}
	first, err := loadIdentity(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if first.TCPPort == first.HTTPPort || len(first.WriterPassword) < 20 || first.WriterPassword == first.ReaderPassword {
		t.Errorf("identity %+v: want two ports and two long passwords", first)
	}
	second, err := loadIdentity(cfg)
	if err != nil || second != first {
		t.Errorf("second identity %+v (%v), want %+v", second, err, first)
	}
	writer, reader, err := Saved(cfg)
	if err != nil || writer.Password != first.WriterPassword || reader.Password != first.ReaderPassword {
		t.Errorf("Saved = %+v, %+v, %v, want the kept identity", writer, reader, err)
	}
	if want := net.JoinHostPort(loopback, strconv.Itoa(first.TCPPort)); writer.Addr != want {
		t.Errorf("saved address = %s, want %s", writer.Addr, want)
	}
}

func TestConfigurationOverridesIdentity(t *testing.T) {
	cfg := Config{Dir: t.TempDir()}.withDefaults()
	first, err := loadIdentity(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.TCPPort, cfg.ReaderPassword = 19, "another password"
	got, err := loadIdentity(cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := first
	want.TCPPort, want.ReaderPassword = 19, "another password"
	if got != want {
		t.Errorf("identity = %+v, want %+v", got, want)
	}
}

func TestDamagedIdentityIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, identityFile), []byte(`{"tcp_port": 1`), 0o600); err != nil {
		t.Fatal(err)
	}
	// New passwords would be harmless, new ports would break whoever uses the old ones: a person has to decide.
	if id, err := loadIdentity(Config{Dir: dir}.withDefaults()); err == nil {
		t.Errorf("identity from half a file: %+v, want an error", id)
	}
}
