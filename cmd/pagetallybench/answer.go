//go:build linux

package main

import (
	"bytes"
	"strconv"
)

// answer is what a server said to a request.
type answer int

const (
	refused      answer = iota // anything but 202
	dropped                    // 202 with a header that says that the event does not count
	acknowledged               // 202: promised to be counted
)

var (
	accepted      = []byte("HTTP/1.1 202 ")
	headEnd       = []byte("\r\n\r\n")
	contentLength = []byte("\r\nContent-Length: ")
	dropHeaders   = [][]byte{[]byte("\r\nX-Plausible-Dropped:"), []byte("\r\nX-Pagetally-Reason:")}
)

// parseAnswer reads an answer of either server, both of which write header names in their canonical form and a length always.
// complete is false while more must arrive.
func parseAnswer(b []byte) (a answer, complete bool) {
	end := bytes.Index(b, headEnd)
	if end < 0 {
		return refused, false
	}
	head := b[:end+2]
	if len(b) < end+len(headEnd)+bodyLength(head) {
		return refused, false
	}
	if !bytes.HasPrefix(head, accepted) {
		return refused, true
	}
	for _, name := range dropHeaders {
		if bytes.Contains(head, name) {
			return dropped, true
		}
	}
	return acknowledged, true
}

func bodyLength(head []byte) int {
	_, rest, _ := bytes.Cut(head, contentLength)
	digits, _, _ := bytes.Cut(rest, []byte("\r\n"))
	n, err := strconv.Atoi(string(digits)) // does not escape: no allocation
	if err != nil || n < 0 {
		return 0
	}
	return n
}
