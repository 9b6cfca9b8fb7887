package main

import (
	"context"
	"io"
	"os"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// doctorCommand checks an installation.
type doctorCommand struct {
	JSON bool `name:"json" help:"Print JSON instead of a table."`
}

func (doctorCommand) Help() string {
	return "Checks the data folder, the journal, ClickHouse and what the promises rest on there, and says what to do about each " +
		"finding. Changes nothing. When no server runs on the data folder, the embedded engine is started for the time of the " +
		"checks. The exit code is the worst finding: 0 ok, 1 warn, 2 fail."
}

// doctorTime bounds all checks together, the start of the engine included.
const doctorTime = 2 * time.Minute

// Run prints the findings and returns an exitError when one is not ok.
func (d doctorCommand) Run(ctx context.Context, s *Settings, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, doctorTime)
	defer cancel()
	findings := examine(ctx, s)
	show := printFindings
	if d.JSON {
		show = printFindingsJSON
	}
	if err := show(out, findings); err != nil {
		return err
	}
	if w := worst(findings); w != ok {
		return exitError(w)
	}
	return nil
}

// examine makes all checks, those first that need nothing.
func examine(ctx context.Context, s *Settings) []finding {
	findings := []finding{
		checkEnvironment(os.Environ()),
		checkDataFolder(s),
		checkFreeDisk(s),
		checkJournal(s),
		checkSalts(s, time.Now()),
		checkGeo(s, time.Now()),
	}
	if s.embedded() {
		findings = append(findings, checkLibrary(s))
	}
	if s.redisServer() {
		findings = append(findings, checkRedis(ctx, s))
	}
	db, err := connect(ctx, s)
	if err != nil {
		return append(findings, failed("clickhouse", "see that the server runs and that --clickhouse and its password are right", "%v", err))
	}
	defer db.Close()
	for _, check := range clickhouseChecks {
		findings = append(findings, runCheck(ctx, db.Conn, check))
	}
	return findings
}

// clickhouseCheck is a check that asks the server something.
type clickhouseCheck struct {
	name string
	run  func(ctx context.Context, conn driver.Conn, name string) (finding, error)
}

func runCheck(ctx context.Context, conn driver.Conn, check clickhouseCheck) finding {
	f, err := check.run(ctx, conn, check.name)
	if err != nil {
		return failed(check.name, "the question itself failed; grant the user SELECT on the system tables", "%v", err)
	}
	return f
}
