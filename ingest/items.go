package ingest

import (
	"bytes"
	"strings"

	"github.com/gofiber/fiber/v2"
)

var (
	errEmptyBody    = &apiError{Status: fiber.StatusBadRequest, Code: "bad_body", Message: "body is empty"}
	errBadJSON      = &apiError{Status: fiber.StatusBadRequest, Code: "bad_body", Message: "body is not JSON: want an object, an array or a line for each object"}
	errTooManyItems = &apiError{Status: fiber.StatusRequestEntityTooLarge, Code: "too_large", Message: "body has more than 10000 items"}
)

// splitItems cuts a body into its items without parsing them: the elements of an array, the lines of NDJSON, or values that follow
// each other. Items are parsed one at a time afterwards, so that a body of 16 MiB never becomes a tree of values in memory.
func splitItems(body []byte, byLine bool, items [][]byte) ([][]byte, error) {
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return nil, errEmptyBody
	case body[0] == '[':
		return splitArray(body, items)
	case byLine:
		return splitLines(body, items)
	}
	return splitValues(body, items)
}

func splitLines(body []byte, items [][]byte) ([][]byte, error) {
	for line := range bytes.Lines(body) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if len(items) == MaxItems {
			return nil, errTooManyItems
		}
		items = append(items, line)
	}
	return items, nil
}

// splitArray cuts [v, v, …]; what the values are is judged later.
func splitArray(body []byte, items [][]byte) ([][]byte, error) {
	rest := bytes.TrimSpace(body[1:])
	if len(rest) == 1 && rest[0] == ']' {
		return nil, errEmptyBody
	}
	for {
		end := valueEnd(rest)
		if end <= 0 {
			return nil, errBadJSON
		}
		if len(items) == MaxItems {
			return nil, errTooManyItems
		}
		items = append(items, rest[:end])
		rest = bytes.TrimSpace(rest[end:])
		switch {
		case len(rest) == 1 && rest[0] == ']':
			return items, nil
		case len(rest) == 0 || rest[0] != ',':
			return nil, errBadJSON
		}
		rest = bytes.TrimSpace(rest[1:])
	}
}

func splitValues(body []byte, items [][]byte) ([][]byte, error) {
	for rest := body; len(rest) > 0; {
		end := valueEnd(rest)
		if end <= 0 {
			return nil, errBadJSON
		}
		if len(items) == MaxItems {
			return nil, errTooManyItems
		}
		items = append(items, rest[:end])
		rest = bytes.TrimSpace(rest[end:])
	}
	return items, nil
}

// valueEnd is the length of the JSON value at the front of b by its brackets and quotes alone, or 0 when it does not end.
func valueEnd(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			n := stringEnd(b[i:])
			if n == 0 {
				return 0
			}
			if i += n - 1; depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return i
			}
		}
	}
	if depth > 0 {
		return 0
	}
	return len(b)
}

// stringEnd is the length of the quoted string at the front of b, or 0 when it does not end.
func stringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 0
}

// isNDJSON reports whether a Content-Type promises one value a line.
func isNDJSON(contentType []byte) bool {
	t := strings.ToLower(text(contentType))
	return strings.Contains(t, "ndjson") || strings.Contains(t, "jsonl") || strings.Contains(t, "json-seq")
}
