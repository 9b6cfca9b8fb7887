package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/pagetally/pagetally/schema/embedded"
)

// cli is the grammar of the command line.
type cli struct {
	Settings

	Serve      serveCommand      `cmd:"" default:"1" help:"Receive, store and answer; the default."`
	Migrate    migrateCommand    `cmd:"" help:"Bring the tables up to this version."`
	Edit       sitesCommand      `cmd:"" name:"sites" help:"Add, change, list and remove sites."`
	Keys       keysCommand       `cmd:"" help:"Make, list and revoke API keys."`
	Query      queryCommand      `cmd:"" help:"Read counts."`
	Explain    explainCommand    `cmd:"" help:"Say what would happen to a hit, and why; store nothing."`
	Journal    journalCommand    `cmd:"" help:"Look into the journal and settle what was set aside."`
	Verify     verifyCommand     `cmd:"" help:"Compare the rollups with the events, and repair them."`
	Doctor     doctorCommand     `cmd:"" help:"Check the installation and say what to do."`
	ClickHouse clickhouseCommand `cmd:"" name:"clickhouse" help:"Run the embedded ClickHouse alone, for clickhouse-client, Grafana or a notebook."`
	Show       configCommand     `cmd:"" name:"config" help:"Print the configuration in effect."`
	Version    versionCommand    `cmd:"" help:"Print the version."`
}

// exitError is an error with an exit code of its own and nothing more to print.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func main() {
	embedded.RunChildIfAsked()
	os.Exit(start(os.Args[1:]))
}

// start runs the command until it ends or a signal asks for an orderly stop. After the first signal the default handling is
// back, so that a second one ends the process.
func start(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return execute(ctx, args, os.Stdout, os.Stderr)
}

// execute parses args, runs the command and returns the exit code.
func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	helped := -1
	var c cli
	parser, err := newParser(&c, stdout, stderr, func(code int) { helped = code })
	if err != nil {
		panic(fmt.Sprintf("command line: %v", err)) // the grammar is a constant
	}
	k, err := parser.Parse(args)
	if helped >= 0 {
		return helped
	}
	if err != nil {
		fmt.Fprintf(stderr, "pagetally: %v\n", err)
		return 2
	}
	k.BindTo(ctx, (*context.Context)(nil))
	return exitCode(k.Run(), stderr)
}

func newParser(c *cli, stdout, stderr io.Writer, exit func(int)) (*kong.Kong, error) {
	return kong.New(c,
		kong.Name("pagetally"),
		kong.Description("Counts page views: each acknowledged event exactly once."),
		kong.Configuration(loadYAML),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Writers(stdout, stderr),
		kong.Exit(exit),
		kong.Bind(&c.Settings),
		kong.BindTo(stdout, (*io.Writer)(nil)),
		settingsFromEnv(),
	)
}

func exitCode(err error, stderr io.Writer) int {
	var code exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	default:
		fmt.Fprintf(stderr, "pagetally: %v\n", err)
		return 1
	}
}
