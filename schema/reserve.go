package schema

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Reserve makes room in the empty batch, which to has prepared, for a block of total rows like those that r holds. It changes how often
// the block's memory grows and nothing else; a wrong guess costs growth or room.
//
// The driver has no call for this, and text columns that grow row by row copy themselves several times: a third of all that building a
// block cost. What can be said to a column is Decode, which allocates at once, and Reset, which keeps what was allocated: so each text
// column reads total values, the first as long as all that are to come and the others empty, and forgets them.
func (r *Rows) Reserve(batch driver.Batch, to Destination, total int) error {
	if r.Len() == 0 || total <= r.Len() {
		return nil
	}
	all := r.columns()
	for i, c := range batch.Columns() {
		texts, ok := all[slices.Index(inboxColumns, to.from[i])].([]string)
		if !ok || c.Type() != "String" {
			continue
		}
		size := 0
		for _, text := range texts {
			size += len(text)
		}
		if err := reserveText(c, total, size*total/r.Len()); err != nil {
			return fmt.Errorf("reserve %s: %w", to.columns[i], err)
		}
	}
	return nil
}

// reserveText makes room for rows values of size bytes together, and a sixteenth more.
func reserveText(c column.Interface, rows, size int) error {
	// Below 128 bytes the column takes a first value for a sample of all.
	size = max(size+size/16, 128)
	head := binary.AppendUvarint(nil, uint64(size))
	stream := io.MultiReader(bytes.NewReader(head), io.LimitReader(zeros{}, int64(size+rows)))
	if err := c.Decode(proto.NewReader(stream), rows); err != nil {
		return err
	}
	c.Reset()
	return nil
}

// zeros reads as zeros without end: as empty texts, one a byte.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
