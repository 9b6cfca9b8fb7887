package query

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// WriteTable prints the count as one aligned row.
func (r CountResult) WriteTable(w io.Writer) error {
	what := r.Path
	if what == "" {
		what = "(all pages)"
	}
	t := newTable(w, append([]string{"site", "path"}, figureHeads(r.Figures)...))
	t.row(append([]string{r.Site, what}, figureCells(r.Figures)...))
	return t.close(r.Meta)
}

// WriteTable prints one row a metric.
func (r TotalsResult) WriteTable(w io.Writer) error {
	heads := []string{"metric", "value"}
	if r.Meta.Compared != nil {
		heads = append(heads, "before")
	}
	t := newTable(w, heads)
	for _, m := range metrics {
		total, ok := r.Results[m]
		if !ok {
			continue
		}
		row := []string{string(m), strconv.FormatInt(total.Value, 10)}
		if total.Previous != nil {
			row = append(row, strconv.FormatInt(*total.Previous, 10))
		}
		t.row(row)
	}
	return t.close(r.Meta)
}

// WriteTable prints one row a bar; a bar that is not whole is marked.
func (r TimeseriesResult) WriteTable(w io.Writer) error {
	var heads []string
	if len(r.Results) > 0 {
		heads = figureHeads(r.Results[0].Figures)
	}
	t := newTable(w, append([]string{string(r.Interval)}, append(heads, "")...))
	for _, bar := range r.Results {
		mark := ""
		if bar.Partial {
			mark = "partial"
		}
		t.row(append([]string{bar.Date}, append(figureCells(bar.Figures), mark)...))
	}
	return t.close(r.Meta)
}

// WriteTable prints one row a value.
func (r TopResult) WriteTable(w io.Writer) error {
	if len(r.Results) == 0 {
		if _, err := fmt.Fprintln(w, "nothing counted"); err != nil {
			return err
		}
		return newTable(w, nil).close(r.Meta)
	}
	t := newTable(w, append([]string{r.Results[0].Dimension}, figureHeads(r.Results[0].Figures)...))
	for _, row := range r.Results {
		t.row(append([]string{row.Value}, figureCells(row.Figures)...))
	}
	return t.close(r.Meta)
}

func figureHeads(f Figures) []string {
	var heads []string
	for _, m := range metrics {
		if _, ok := f.Get(m); ok {
			heads = append(heads, string(m))
		}
	}
	return heads
}

func figureCells(f Figures) []string {
	var cells []string
	for _, m := range metrics {
		if v, ok := f.Get(m); ok {
			cells = append(cells, strconv.FormatInt(v, 10))
		}
	}
	return cells
}

// textTable aligns columns; the first write error is kept for close.
type textTable struct {
	w   *tabwriter.Writer
	out io.Writer
	err error
}

func newTable(w io.Writer, heads []string) *textTable {
	t := &textTable{w: tabwriter.NewWriter(w, 0, 0, 2, ' ', 0), out: w}
	if len(heads) > 0 {
		t.row(heads)
	}
	return t
}

// row keeps what a client sent as a path or title on its line and in its column.
func (t *textTable) row(cells []string) {
	for i, cell := range cells {
		cells[i] = strings.Map(printable, cell)
	}
	if _, err := fmt.Fprintln(t.w, strings.Join(cells, "\t")); err != nil && t.err == nil {
		t.err = err
	}
}

func printable(r rune) rune {
	if strconv.IsPrint(r) {
		return r
	}
	return '�'
}

// close prints the range and what the numbers are worth below the rows.
func (t *textTable) close(m Meta) error {
	if t.err != nil {
		return t.err
	}
	if err := t.w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(t.out, "\n%s to %s (%s), as of %s\n", m.Range.From, m.Range.To, m.Range.TZ, m.AsOf)
	if bound, approximate := m.ErrorBound[Visitors]; err == nil && approximate {
		_, err = fmt.Fprintf(t.out, "visitors are approximate, within %.1f %%\n", bound*100)
	}
	return err
}
