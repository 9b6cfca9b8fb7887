package query

import (
	"encoding/csv"
	"io"
	"strings"
)

// CSV has a line of names and then the rows, by RFC 4180. A rate of nothing is an empty field.

// WriteCSV writes the count as one row.
func (r CountResult) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	writeRow(c, []string{"site", "path", "name"}, r.names())
	writeRow(c, []string{r.Site, r.Path, r.Name}, r.fields())
	return finish(c)
}

// WriteCSV writes one row a metric.
func (r TotalsResult) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	heads := []string{"metric", "value"}
	if r.Meta.Compared != nil {
		heads = append(heads, "previous")
	}
	writeRow(c, heads)
	for _, m := range metrics {
		total, ok := r.Results[m]
		if !ok {
			continue
		}
		row := []string{string(m), totalText(total.Value, "")}
		if total.Previous != nil {
			row = append(row, totalText(*total.Previous, ""))
		}
		writeRow(c, row)
	}
	return finish(c)
}

// WriteCSV writes one row a bar.
func (r TimeseriesResult) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	if len(r.Results) == 0 {
		writeRow(c, []string{"date", "start", "end"})
		return finish(c)
	}
	previous := func(bar SeriesBar) []string {
		switch {
		case r.Meta.Compared == nil:
			return nil
		case bar.Previous == nil:
			return make([]string, 1+len(bar.fields()))
		}
		return append([]string{bar.Previous.Date}, bar.Previous.fields()...)
	}
	first := r.Results[0]
	heads := append([]string{"date", "start", "end"}, first.names()...)
	if r.Meta.Compared != nil {
		heads = append(heads, "previous_date")
		for _, name := range first.names() {
			heads = append(heads, "previous_"+name)
		}
	}
	writeRow(c, heads)
	for _, bar := range r.Results {
		writeRow(c, []string{bar.Date, bar.Start, bar.End}, bar.fields(), previous(bar))
	}
	return finish(c)
}

// WriteCSV writes one row a value.
func (r TopResult) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	for i, row := range r.Results {
		if i == 0 {
			writeRow(c, row.Dimensions, row.names())
		}
		values := make([]string, len(row.Values))
		for j, value := range row.Values {
			values[j] = unspreadable(value)
		}
		writeRow(c, values, row.fields())
	}
	return finish(c)
}

// names of the metrics that f has, in their order.
func (f Figures) names() []string { return figureHeads(f) }

func (f Figures) fields() []string {
	var fields []string
	for _, m := range metrics {
		if _, asked := f.text(m); asked {
			fields = append(fields, totalText(f.Value(m), ""))
		}
	}
	return fields
}

// unspreadable keeps spreadsheets from taking what a client sent, such as a title, for a formula.
func unspreadable(value string) string {
	if value != "" && strings.ContainsRune("=+-@\t\r", rune(value[0])) {
		return "'" + value
	}
	return value
}

// writeRow joins parts of a row. Errors are kept for finish.
func writeRow(c *csv.Writer, parts ...[]string) {
	var row []string
	for _, part := range parts {
		row = append(row, part...)
	}
	_ = c.Write(row)
}

func finish(c *csv.Writer) error {
	c.Flush()
	return c.Error()
}
