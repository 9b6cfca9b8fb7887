package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/pagetally/pagetally/schema/embedded"
)

// clickhouseCommand runs the embedded engine without the rest.
type clickhouseCommand struct {
	Host     string `help:"IP address to listen on. Beyond loopback --password is required, and only the reader may connect from outside." default:"127.0.0.1"`
	TCPPort  int    `help:"Port of the native protocol. 0: the one kept in the data folder." placeholder:"PORT"`
	HTTPPort int    `help:"Port of the HTTP protocol. 0: the one kept in the data folder." placeholder:"PORT"`
	Password string `help:"Password of the reader, at least 8 characters. Empty: the one kept in the data folder." env:"PAGETALLY_CLICKHOUSE_PASSWORD"`
}

func (clickhouseCommand) Help() string {
	return "Serves the data folder's ClickHouse until it is told to stop. Not while a server runs on the same folder: that one's engine " +
		"is there already, on the same ports."
}

// Run serves until ctx ends.
func (c clickhouseCommand) Run(ctx context.Context, s *Settings, out io.Writer) error {
	if err := os.MkdirAll(s.Data, 0o700); err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	engine, err := embedded.New(embedded.Config{
		Dir: s.path(engineDir), Library: s.EngineLib, Database: databaseName, MemoryLimit: int64(s.EngineMemory), Logger: newLogger(s, os.Stderr),
		ListenHost: c.Host, TCPPort: c.TCPPort, HTTPPort: c.HTTPPort, ReaderPassword: c.Password,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	if err := engine.Ready(ctx); err == nil {
		err = c.explain(out, s, engine.Reader())
		if err != nil {
			cancel()
		}
	}
	return <-ended
}

// explain says how to connect. The generated password is not printed: it may end in a log.
func (c clickhouseCommand) explain(out io.Writer, s *Settings, reader embedded.Connection) error {
	_, port, err := net.SplitHostPort(reader.Addr)
	if err != nil {
		return err
	}
	password := "the one you gave"
	if c.Password == "" {
		password = "reader_password in " + s.path(engineDir, "engine.json")
	}
	_, err = fmt.Fprintf(out, `ClickHouse listens: native %s, HTTP http://%s
  database %s, user %s (reads only), password: %s
  clickhouse-client --host %s --port %s --user %s --password ... --database %s
`, reader.Addr, reader.HTTPAddr, reader.Database, reader.User, password, c.Host, port, reader.User, reader.Database)
	return err
}
