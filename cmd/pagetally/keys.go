package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/pagetally/pagetally/ingest"
	"github.com/pagetally/pagetally/query"
)

// keysCommand looks after the API keys. A running server takes changes up within seconds.
type keysCommand struct {
	Add    keysAdd    `cmd:"" help:"Make a key and print its secret, this once."`
	List   keysList   `cmd:"" help:"List the keys, without secrets, which are not kept."`
	Revoke keysRevoke `cmd:"" help:"Take a key back."`
}

type keysAdd struct {
	Name    string   `help:"What the key is for." required:""`
	Scope   []string `help:"ingest (send with times, addresses and deltas), read, admin." required:"" enum:"ingest,read,admin"`
	Domains []string `help:"Sites that the key is for. Empty: all."`
}

type keysList struct{}

type keysRevoke struct {
	ID string `arg:"" help:"The key's id, as 'keys list' prints it."`
}

// Run makes a key. The secret is alone on its line, so that a script can take it.
func (c keysAdd) Run(ctx context.Context, s *Settings, out io.Writer) error {
	db, err := connect(ctx, s)
	if err != nil {
		return err
	}
	defer db.Close()
	secret, key, err := ingest.AddKey(ctx, db.Conn, ingest.KeySpec{Name: c.Name, Scopes: c.Scope, Sites: c.Domains})
	if err != nil {
		return fmt.Errorf("add key: %w", err)
	}
	_, err = fmt.Fprintf(out, "%s\nKey %s. The secret is shown this once and is stored nowhere.\n", secret, key.ID)
	return err
}

// Run lists the keys, revoked ones too.
func (keysList) Run(ctx context.Context, s *Settings, out io.Writer) error {
	db, err := connect(ctx, s)
	if err != nil {
		return err
	}
	defer db.Close()
	records, err := ingest.ListKeys(ctx, db.Conn)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "id\tname\tscopes\tsites\tcreated\tstate")
	for _, r := range records {
		fmt.Fprintf(w, "%s\t%q\t%s\t%s\t%s\t%s\n", r.ID, r.Name, strings.Join(r.Scopes, ","), sitesOf(r), r.CreatedAt.UTC().Format(time.RFC3339), stateOf(r))
	}
	return w.Flush()
}

func sitesOf(r ingest.KeyRecord) string {
	if len(r.Sites) == 0 {
		return "all"
	}
	return strings.Join(r.Sites, ",")
}

func stateOf(r ingest.KeyRecord) string {
	if r.Revoked {
		return "revoked"
	}
	return "valid"
}

// Run revokes a key.
func (c keysRevoke) Run(ctx context.Context, s *Settings, out io.Writer) error {
	db, err := connect(ctx, s)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := ingest.RevokeKey(ctx, db.Conn, c.ID); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s is revoked; a running server refuses it within seconds\n", c.ID)
	return err
}

// readKeys shows the keys of receiving to reading.
type readKeys struct{ *ingest.Keys }

// ReadKey finds what a key may read.
func (k readKeys) ReadKey(secret string) (query.Key, bool) {
	key, ok := k.Lookup(secret)
	return query.Key{ID: key.ID, Read: key.Has(ingest.ScopeRead), Sites: key.Sites}, ok
}

// loopback lets readers on this machine in without a key, if only this machine can reach the server and no proxy does for others.
func loopback(s *Settings, proxies *ingest.Proxies) func(*fiber.Ctx) bool {
	if !s.trustsLoopback() {
		return nil
	}
	return func(c *fiber.Ctx) bool { return ingest.IsLocal(c, proxies) }
}
