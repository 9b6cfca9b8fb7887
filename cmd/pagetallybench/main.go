//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

// options is the command line.
type options struct {
	Measure measureCommand `cmd:"" default:"withargs" help:"Measure and print the table; the default."`
	Read    readCommand    `cmd:"" help:"Measure reads over a year of views beside the raw events."`
	Bare    bareCommand    `cmd:"" hidden:"" help:"Be the server to compare with."`
}

// measureCommand says what to measure.
type measureCommand struct {
	Binary      string        `help:"The pagetally to measure." default:"./pagetally" type:"existingfile"`
	EngineLib   string        `help:"Path of the embedded engine's library; empty: where pagetally looks." env:"PAGETALLY_ENGINE_LIB"`
	Dir         string        `help:"Where to put the data folders; they are removed afterwards. The disk under it is what is measured." type:"existingdir" default:"."`
	Connections []int         `help:"Numbers of connections to load with." default:"64,256,512"`
	Duration    time.Duration `help:"Time of load for each server and number of connections." default:"10s"`
	Rounds      int           `help:"Turns into which that time is cut, so that both servers see the same neighbours." default:"2"`
	Threads     int           `help:"Threads of the client." default:"1"`
	Rate        int           `help:"Requests a second while visibility is measured." default:"2000"`
	Visible     time.Duration `help:"How long to measure visibility; 0 leaves it out." default:"20s"`
	ReadRate    int           `help:"Reads a second while recent counts are measured." default:"1000"`
	Redis       string        `help:"The redis-server to measure recent counts with. Where there is none they are left out." default:"redis-server"`
	Backlog     int           `help:"Events to journal for measuring delivery; 0 leaves it out." default:"1000000"`
	Profile     string        `help:"Write a CPU profile of pagetally at the last number of connections to this file."`
	JSON        bool          `name:"json" help:"Print JSON instead of a table."`
}

func main() {
	var o options
	k := kong.Parse(&o, kong.Name("pagetallybench"), kong.Description("Measures pagetally beside a bare server."))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	k.BindTo(ctx, (*context.Context)(nil))
	k.FatalIfErrorf(k.Run())
}

// Validate refuses what cannot be measured.
func (c *measureCommand) Validate() error {
	for _, n := range c.Connections {
		if n < 1 || n > maxConnections {
			return fmt.Errorf("--connections: %d is not within 1 and %d", n, maxConnections)
		}
	}
	if c.Rounds < 1 || c.Threads < 1 || c.Rate < 1 || c.ReadRate < 1 || c.Duration <= 0 || c.Visible < 0 || c.Backlog < 0 {
		return errors.New("numbers and times must be positive")
	}
	return nil
}

// Run measures, prints, and fails when an acknowledged event was lost or one was counted twice.
func (c *measureCommand) Run(ctx context.Context) error {
	dir, err := os.MkdirTemp(c.Dir, "pagetallybench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // what stays behind is only in the way
	b := &bench{measureCommand: *c, dir: dir}
	result, err := b.run(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		err = result.writeJSON(os.Stdout)
	} else {
		err = result.writeTable(os.Stdout)
	}
	return errors.Join(err, result.check())
}
