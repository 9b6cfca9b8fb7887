package ingest

import (
	"bytes"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

// MaxConnections bounds the open connections; more are answered 503 at once.
const MaxConnections = 8192

// Harden makes app stand what arrives from outside, where the framework alone would not. It is called once, before app listens.
//
// Requests whose end two programs could see at different places (two lengths, a length and chunks, folded or broken header
// lines) are refused and their connection closed, as is each connection after chunks, of which the framework's reading is
// lenient: nothing behind them is taken for a request. Bodies in memory share a budget, and a body that is too large is refused
// as soon as its length is known.
func Harden(app *fiber.App) {
	server := app.Server()
	bodies := newBodyBudget(maxBodyMemory)
	server.Concurrency = MaxConnections
	server.HeaderReceived = bodies.admit
	server.Handler = guard(server.Handler, bodies)
	server.ErrorHandler = bodies.explain(server.ErrorHandler)
}

// guard calls next for sound requests only, and closes the connection where its next request could be something else.
func guard(next fasthttp.RequestHandler, bodies *bodyBudget) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		header := &ctx.Request.Header
		defer bodies.release(header)
		shape := shapeOf(header)
		if shape.problem != "" {
			refuseRequest(ctx, shape.problem)
			return
		}
		next(ctx)
		if shape.chunked {
			closeAfter(ctx)
		}
	}
}

// chunkedLength is what fasthttp calls the length of a body in chunks.
const chunkedLength = -1

// closeAfter closes the connection once the client has the answer.
func closeAfter(ctx *fasthttp.RequestCtx) {
	ctx.SetConnectionClose()
	if conn, ok := ctx.Conn().(*lingeringConn); ok {
		conn.linger = true
	}
}

func refuseRequest(ctx *fasthttp.RequestCtx, problem string) {
	closeAfter(ctx)
	ctx.SetStatusCode(fiber.StatusBadRequest)
	ctx.SetContentType(fiber.MIMEApplicationJSON)
	ctx.SetBodyString(`{"error":{"code":"bad_request","message":"` + problem + `"}}`)
}

// shape is what the headers say about where a request ends.
type shape struct {
	chunked bool
	problem string // for which the request is refused, in JSON's characters; empty when there is none
}

func shapeOf(header *fasthttp.RequestHeader) shape {
	raw := header.RawHeaders()
	if bytes.IndexByte(raw, 0) >= 0 || bytes.IndexByte(header.RequestURI(), 0) >= 0 {
		return shape{problem: "headers hold a NUL"}
	}
	var lengths, encodings, chunked, hosts, returns int
	for rest := raw; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			end = len(rest)
		}
		line := rest[:end]
		rest = rest[end:]
		if len(line) >= 2 && line[len(line)-2] == '\r' {
			returns++
		}
		switch line[0] | 0x20 {
		case ' ', '\t' | 0x20:
			if len(bytes.TrimSpace(line)) > 0 {
				return shape{problem: "a header line is folded"}
			}
		case 'c':
			lengths += named(line, "content-length:")
		case 't':
			if name := "transfer-encoding:"; named(line, name) == 1 {
				encodings++
				chunked += isWord(line[len(name):], "chunked")
			}
		case 'h':
			hosts += named(line, "host:")
		}
	}
	switch {
	case returns != bytes.Count(raw, []byte{'\r'}):
		return shape{problem: "a header line holds a carriage return"}
	case lengths+encodings > 1:
		return shape{problem: "more than one length of the body"}
	case hosts > 1:
		return shape{problem: "more than one host"}
	case encodings != chunked:
		return shape{problem: "unknown transfer encoding"}
	}
	return shape{chunked: chunked > 0}
}

// named counts a line that begins with a name and a colon, in any case.
func named(line []byte, name string) int {
	if len(line) >= len(name) && equalFold(text(line[:len(name)]), name) {
		return 1
	}
	return 0
}

// isWord counts a value that is one word, in any case.
func isWord(value []byte, word string) int {
	if equalFold(text(bytes.TrimSpace(value)), word) {
		return 1
	}
	return 0
}
