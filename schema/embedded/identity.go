package embedded

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
)

// identity is what an engine keeps between starts, in identityFile: a port that changed would break every dashboard
// that points at it.
type identity struct {
	TCPPort        int    `json:"tcp_port"`
	HTTPPort       int    `json:"http_port"`
	WriterPassword string `json:"writer_password"`
	ReaderPassword string `json:"reader_password"`
}

const (
	identityFile = "engine.json"
	secretMode   = 0o600

	// Ports are looked for below the ranges that systems take outgoing connections' ports from, so that a kept port is
	// not found taken by a passing connection at the next start.
	lowestPort, highestPort = 20000, 32000
	portTries               = 100
)

// loadIdentity reads the directory's identity, completes it and lets the configuration override it; what is new is kept.
func loadIdentity(cfg Config) (identity, error) {
	kept, err := readIdentity(cfg.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return kept, err
	}
	id := kept
	if err := id.complete(cfg); err != nil {
		return id, err
	}
	if id == kept {
		return id, nil
	}
	text, err := json.MarshalIndent(id, "", "  ")
	if err != nil {
		return id, fmt.Errorf("encode engine identity: %w", err)
	}
	return id, replaceFile(filepath.Join(cfg.Dir, identityFile), append(text, '\n'))
}

// readIdentity reads what is kept; the error matches fs.ErrNotExist when nothing is.
func readIdentity(dir string) (identity, error) {
	var id identity
	path := filepath.Join(dir, identityFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return id, fmt.Errorf("read engine identity: %w", err)
	}
	if err := json.Unmarshal(text, &id); err != nil {
		return id, fmt.Errorf("engine identity %s damaged (remove it for new ports and passwords): %w", path, err)
	}
	return id, nil
}

func (id *identity) complete(cfg Config) error {
	id.TCPPort = orDefault(cfg.TCPPort, id.TCPPort)
	id.HTTPPort = orDefault(cfg.HTTPPort, id.HTTPPort)
	id.ReaderPassword = orDefault(cfg.ReaderPassword, id.ReaderPassword)
	for _, port := range []*int{&id.TCPPort, &id.HTTPPort} {
		for *port == 0 || id.TCPPort == id.HTTPPort {
			free, err := freePort(cfg.ListenHost)
			if err != nil {
				return err
			}
			*port = free
		}
	}
	id.WriterPassword = orDefault(id.WriterPassword, rand.Text())
	id.ReaderPassword = orDefault(id.ReaderPassword, rand.Text())
	return nil
}

// freePort finds a port that nobody listens on now.
func freePort(host string) (int, error) {
	for range portTries {
		offset, err := rand.Int(rand.Reader, big.NewInt(highestPort-lowestPort))
		if err != nil {
			return 0, fmt.Errorf("choose engine port: %w", err)
		}
		port := lowestPort + int(offset.Int64())
		if checkPort(host, port) == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("%w: no free port found in %d tries", ErrPortTaken, portTries)
}

// checkPort fails with ErrPortTaken when somebody listens there.
func checkPort(host string, port int) error {
	listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("%w: %s port %d (%w); end the program that listens there, or change the port in %s",
			ErrPortTaken, host, port, err, identityFile)
	}
	return listener.Close()
}

// replaceFile writes a file that only its owner reads, whole or not at all.
func replaceFile(path string, text []byte) error {
	temp := path + ".new"
	if err := writeSynced(temp, text); err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("replace %s: %w", filepath.Base(path), err)
	}
	return nil
}

func writeSynced(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, secretMode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}
