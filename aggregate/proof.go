package aggregate

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/pagetally/pagetally/schema"
)

// errBrokenPart says that the server acknowledged a part whose files are not whole. The engine (seen in 26.7) drops the error of a
// write that fails while a part is finished, for want of space for example, and answers OK: such a part cannot be read, and is set
// aside as broken when the server starts again.
var errBrokenPart = errors.New("the server acknowledged a part that is not whole")

// provedRemembered is how many parts are remembered as whole, far more than are fresh at a time.
const provedRemembered = 8192

// eventTables are those that an INSERT into the inbox makes parts in.
var eventTables = func() []string {
	var names []string
	for _, t := range schema.Targets() {
		names = append(names, t.Table)
	}
	return names
}()

const ledgerTable = "ledger"

// proveEvents proves what an INSERT into the inbox has filled: the views still fitted their tables, and every part is whole.
func (d *Delivery) proveEvents(ctx context.Context) error {
	if err := schema.CheckFeeds(ctx, d.conn); err != nil {
		return err
	}
	return d.prove(ctx, eventTables...)
}

// prove has the server compare the fresh parts of the tables with their checksums. A part that is not whole is taken out of its
// table, and errBrokenPart returned: what it held is missing then, which settling finds.
func (d *Delivery) prove(ctx context.Context, tables ...string) error {
	fresh, err := d.freshParts(ctx, tables)
	if err != nil {
		return fmt.Errorf("list fresh parts: %w", err)
	}
	for _, p := range fresh {
		if err := d.provePart(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

type part struct{ table, name string }

// freshParts lists the parts that no merge has rewritten yet and that were not proved before: a merge reads its sources whole.
func (d *Delivery) freshParts(ctx context.Context, tables []string) ([]part, error) {
	rows, err := d.conn.Query(ctx, `SELECT table, name FROM system.parts
		WHERE database = currentDatabase() AND active AND level = 0 AND modification_time >= now() - INTERVAL 10 MINUTE AND has({tables:Array(String)}, table)`,
		clickhouse.Named("tables", tables))
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	var fresh []part
	for rows.Next() {
		var p part
		if err := rows.Scan(&p.table, &p.name); err != nil {
			return nil, err
		}
		if !d.proved.Contains(p) {
			fresh = append(fresh, p)
		}
	}
	return fresh, rows.Err()
}

// partName is what the engine calls parts; statements about parts take no parameters.
var partName = regexp.MustCompile(`^[0-9A-Za-z_-]+$`)

const (
	codeNoSuchPart = 232 // NO_SUCH_DATA_PART: merged since it was listed
)

func (d *Delivery) provePart(ctx context.Context, p part) error {
	if !slices.Contains(eventTables, p.table) && p.table != ledgerTable || !partName.MatchString(p.name) {
		return fmt.Errorf("part %q of table %q has an unknown name", p.name, p.table)
	}
	var name, message string
	var whole uint8
	err := d.conn.QueryRow(ctx, "CHECK TABLE "+p.table+" PART '"+p.name+"' SETTINGS check_query_single_value_result = 0").Scan(&name, &whole, &message)
	var exception *clickhouse.Exception
	if errors.As(err, &exception) && exception.Code == codeNoSuchPart {
		return nil
	}
	if err != nil {
		return fmt.Errorf("check part %s of %s: %w", p.name, p.table, err)
	}
	if whole == 1 {
		d.proved.Add(p, struct{}{})
		return nil
	}
	// Whoever has an INSERT in flight must look whether the part was theirs.
	d.brokenParts.Add(1)
	d.metrics.brokenParts.Inc()
	d.log.Error("a part was acknowledged and is not whole: it is detached and its rows are stored again", "table", p.table, "part", p.name)
	if err := d.conn.Exec(ctx, "ALTER TABLE "+p.table+" DETACH PART '"+p.name+"'"); err != nil {
		return fmt.Errorf("detach broken part %s of %s: %w", p.name, p.table, err)
	}
	return fmt.Errorf("%w: %s of %s", errBrokenPart, p.name, p.table)
}
