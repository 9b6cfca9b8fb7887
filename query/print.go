package query

import (
	"fmt"
	"io"
	"slices"
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
		row := []string{string(m), totalText(total.Value, "-")}
		if total.Previous != nil {
			row = append(row, totalText(*total.Previous, "-"))
		}
		t.row(row)
	}
	return t.close(r.Meta)
}

// WriteTable prints one row a bar; a bar that is not whole is marked.
func (r TimeseriesResult) WriteTable(w io.Writer) error {
	heads := []string{string(r.Interval)}
	var measured []string
	if len(r.Results) > 0 {
		measured = figureHeads(r.Results[0].Figures)
	}
	heads = append(heads, measured...)
	if r.Meta.Compared != nil {
		heads = append(heads, "before")
		heads = append(heads, measured...)
	}
	t := newTable(w, append(heads, ""))
	for _, bar := range r.Results {
		row := append([]string{bar.Date}, figureCells(bar.Figures)...)
		switch {
		case bar.Previous != nil:
			row = append(append(row, bar.Previous.Date), figureCells(bar.Previous.Figures)...)
		case r.Meta.Compared != nil:
			row = append(row, make([]string, 1+len(measured))...)
		}
		mark := ""
		if bar.Partial {
			mark = "partial"
		}
		t.row(append(row, mark))
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
	first := r.Results[0]
	t := newTable(w, append(slices.Clone(first.Dimensions), figureHeads(first.Figures)...))
	for _, row := range r.Results {
		t.row(append(slices.Clone(row.Values), figureCells(row.Figures)...))
	}
	return t.close(r.Meta)
}

func figureHeads(f Figures) []string {
	var heads []string
	for _, m := range metrics {
		if _, ok := f.text(m); ok {
			heads = append(heads, string(m))
		}
	}
	return heads
}

func figureCells(f Figures) []string {
	var cells []string
	for _, m := range metrics {
		if v, ok := f.text(m); ok {
			cells = append(cells, v)
		}
	}
	return cells
}

// totalText is a count, or a rate, which is none where nothing was counted.
func totalText(value any, none string) string {
	switch v := value.(type) {
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return Rate{Value: v, Valid: true}.text(none)
	}
	return none
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
