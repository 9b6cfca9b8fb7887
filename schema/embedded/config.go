package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Database is the one the product's tables live in; the engine makes it at its first start.
const Database = "pagetally"

// Config says where an engine lives and what it may use. Only Dir is needed.
type Config struct {
	Dir     string // the engine's own folder, made when missing; nothing else may live in it
	Library string // path of the library; empty: found by Locate

	// ListenHost is an IP address; empty means 127.0.0.1. Beyond loopback ReaderPassword is needed, and only the reader
	// may connect from outside.
	ListenHost string
	// TCPPort and HTTPPort are where the native and the HTTP protocol are served; 0 means the port kept in Dir, chosen
	// free at the first start.
	TCPPort, HTTPPort int
	// ReaderPassword replaces the generated one; at least 8 characters.
	ReaderPassword string

	Database string // the product's, which the reader may read; a plain name; empty means Database

	MemoryLimit int64 // bytes the engine may use; 0 means half of the machine's (or the container's) memory
	NoFsync     bool  // lets inserts return before they are on disk: for tests that never cut the power

	// Env is added to the engine's environment, NAME=value each.
	Env []string

	LongestWait  time.Duration // the longest pause before another start after crashes in a row; 0 means 5 seconds
	StartTimeout time.Duration // how long one start may take until the first ping; 0 means 2 minutes
	StopTimeout  time.Duration // how long a clean stop may take before the engine is killed; 0 means 30 s
	// TakeoverTimeout is how long a start waits for an engine whose parent died on the same directory; 0 means 60 s.
	TakeoverTimeout time.Duration

	Logger     *slog.Logger          // nil: silent
	Registerer prometheus.Registerer // nil: no metrics
}

// Connection is what a client needs to connect as one of the engine's users.
type Connection struct {
	Addr     string // host:port of the native protocol
	HTTPAddr string // host:port of the HTTP protocol
	User     string
	Password string
	Database string
}

const (
	loopback          = "127.0.0.1"
	minReaderPassword = 8
	maxPort           = 65535
)

func (c Config) withDefaults() Config {
	c.ListenHost = orDefault(c.ListenHost, loopback)
	c.Database = orDefault(c.Database, Database)
	c.LongestWait = orDefault(c.LongestWait, 5*time.Second)
	c.StartTimeout = orDefault(c.StartTimeout, 2*time.Minute)
	c.StopTimeout = orDefault(c.StopTimeout, 30*time.Second)
	c.TakeoverTimeout = orDefault(c.TakeoverTimeout, time.Minute)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

// check refuses what cannot work, with defaults filled in, and makes Dir absolute: the child runs elsewhere.
func (c *Config) check() error {
	if c.Dir == "" {
		return errors.New("engine directory not given")
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return fmt.Errorf("engine directory: %w", err)
	}
	c.Dir = dir
	for _, port := range []int{c.TCPPort, c.HTTPPort} {
		if port < 0 || port > maxPort {
			return fmt.Errorf("engine port %d out of range", port)
		}
	}
	if c.TCPPort != 0 && c.TCPPort == c.HTTPPort {
		return fmt.Errorf("engine port %d given for both protocols", c.TCPPort)
	}
	if c.ReaderPassword != "" && len(c.ReaderPassword) < minReaderPassword {
		return fmt.Errorf("reader password shorter than %d characters", minReaderPassword)
	}
	if net.ParseIP(c.ListenHost) == nil {
		return fmt.Errorf("engine listen host %q is no IP address", c.ListenHost)
	}
	if c.exposed() && c.ReaderPassword == "" {
		return fmt.Errorf("%w: %s", ErrPasswordNeeded, c.ListenHost)
	}
	// It stands in grants and in a statement, which have no way to bind a name.
	if !databaseName.MatchString(c.Database) {
		return fmt.Errorf("database name %q is not plain", c.Database)
	}
	return nil
}

// exposed says whether others than this machine's own programs could connect.
func (c *Config) exposed() bool {
	ip := net.ParseIP(c.ListenHost)
	return ip == nil || !ip.IsLoopback()
}

// dialHost is where this process reaches the engine: an unspecified listen address is none to dial.
func (c *Config) dialHost() string {
	if ip := net.ParseIP(c.ListenHost); ip != nil && !ip.IsUnspecified() {
		return c.ListenHost
	}
	return loopback
}

// connection is how this machine's programs reach the engine as a user.
func (c *Config) connection(id identity, user, password string) Connection {
	host := c.dialHost()
	return Connection{
		Addr:     net.JoinHostPort(host, strconv.Itoa(id.TCPPort)),
		HTTPAddr: net.JoinHostPort(host, strconv.Itoa(id.HTTPPort)),
		User:     user, Password: password, Database: c.Database,
	}
}
