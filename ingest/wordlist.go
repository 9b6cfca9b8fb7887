package ingest

import "strings"

// lines are the lines of an embedded list, without comments and blank ones.
func lines(text string) []string {
	var list []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			list = append(list, line)
		}
	}
	return list
}

// columns are the trimmed fields between the bars of a list's line; missing ones are empty.
func columns(line string, n int) []string {
	fields := make([]string, n)
	for i, field := range strings.SplitN(line, "|", n) {
		fields[i] = strings.TrimSpace(field)
	}
	return fields
}
