package aggregate

import (
	"database/sql"
	"errors"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
)

func isCorrupt(err error) bool {
	return errors.Is(err, journal.ErrCorrupt) || errors.Is(err, schema.ErrCorruptEvent)
}

func isNoFile(err error) bool { return errors.Is(err, journal.ErrNoFile) }

func isNoRows(err error) bool { return errors.Is(err, sql.ErrNoRows) }
