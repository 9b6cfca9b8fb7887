package ingest

import (
	"bytes"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"
	"github.com/valyala/fasthttp"
)

const (
	maxBodyMemory = 512 << 20 // of all bodies over freeBody together
	freeBody      = MaxEventBytes
	// maxSentEvent bounds the body of a one-event endpoint as sent. It is above MaxEventBytes so that what is a little too large
	// is refused by the dialect in its own form.
	maxSentEvent = 256 << 10
	// batchTime is how long a batch may take to arrive: 16 MiB at 2 Mbit/s and some.
	batchTime = 75 * time.Second
)

// batchPaths are the endpoints that take batches. A path in another case is served as well, within the limits of one event.
var batchPaths = [...]string{"/v1/events", "/api/batch", "/api/v0/count"}

// bodyBudget bounds the memory of bodies. Small ones are free: the number of connections bounds them. A larger one needs its
// size, and a compressed one the most it may open to, from when its headers are read until it is answered.
type bodyBudget struct {
	mu    sync.Mutex
	left  int
	taken map[*fasthttp.RequestHeader]reservation

	holders atomic.Int32 // the length of taken: most requests need not ask
}

// reservation is a request's part. The framework reuses the header, which tells it, for the connection's next request only after
// this one; where it gives up a request without telling, the part is free again when the time for reading it is over.
type reservation struct {
	size    int
	refused bool
	until   time.Time
}

func newBodyBudget(size int) *bodyBudget {
	return &bodyBudget{left: size, taken: make(map[*fasthttp.RequestHeader]reservation)}
}

// admit decides from the headers how large the body may be and how long it may take.
func (b *bodyBudget) admit(header *fasthttp.RequestHeader) fasthttp.RequestConfig {
	config := fasthttp.RequestConfig{MaxRequestBodySize: maxSentEvent}
	if header.IsPost() && isBatchPath(header.RequestURI()) {
		config = fasthttp.RequestConfig{MaxRequestBodySize: MaxBatchBytes, ReadTimeout: batchTime}
	}
	size := header.ContentLength()
	if size == chunkedLength {
		size = config.MaxRequestBodySize
	}
	if size <= 0 || size > config.MaxRequestBodySize {
		return config
	}
	if config.MaxRequestBodySize == MaxBatchBytes && len(header.Peek(fiber.HeaderContentEncoding)) > 0 {
		size += MaxBatchBytes
	}
	if size > freeBody && !b.reserve(header, size) {
		config.MaxRequestBodySize = 1 // the framework refuses the body, explain says why
	}
	return config
}

func isBatchPath(uri []byte) bool {
	path, _, _ := bytes.Cut(uri, []byte("?"))
	for _, p := range batchPaths {
		if string(path) == p {
			return true
		}
	}
	return false
}

func (b *bodyBudget) reserve(header *fasthttp.RequestHeader, size int) bool {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.releaseLocked(header)
	if size > b.left {
		b.expireLocked(now)
	}
	r := reservation{size: size, until: now.Add(batchTime + time.Minute)}
	if size > b.left {
		r = reservation{refused: true, until: r.until}
	}
	b.left -= r.size
	b.taken[header] = r
	b.holders.Store(int32(len(b.taken)))
	return !r.refused
}

func (b *bodyBudget) expireLocked(now time.Time) {
	for header, r := range b.taken {
		if now.After(r.until) {
			b.left += r.size
			delete(b.taken, header)
		}
	}
	b.holders.Store(int32(len(b.taken)))
}

func (b *bodyBudget) releaseLocked(header *fasthttp.RequestHeader) (refused bool) {
	r, ok := b.taken[header]
	if ok {
		b.left += r.size
		delete(b.taken, header)
		b.holders.Store(int32(len(b.taken)))
	}
	return r.refused
}

// release gives back what a request holds and reports whether it was refused for want of memory.
func (b *bodyBudget) release(header *fasthttp.RequestHeader) (refused bool) {
	if b.holders.Load() == 0 {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.releaseLocked(header)
}

// explain answers what the framework refused: 503 where the budget was used up, else what next says. The connection lingers, so
// that a client in the middle of its body sees the answer.
func (b *bodyBudget) explain(next func(*fasthttp.RequestCtx, error)) func(*fasthttp.RequestCtx, error) {
	return func(ctx *fasthttp.RequestCtx, err error) {
		if errors.Is(err, fasthttp.ErrBodyTooLarge) {
			closeAfter(ctx)
		}
		b.mu.Lock()
		refused := b.releaseLocked(&ctx.Request.Header)
		b.mu.Unlock()
		if !refused {
			next(ctx, err)
			return
		}
		ctx.SetStatusCode(fiber.StatusServiceUnavailable)
		ctx.Response.Header.Set(fiber.HeaderRetryAfter, strconv.Itoa(retryAfter))
		ctx.SetContentType(fiber.MIMEApplicationJSON)
		ctx.SetBodyString(`{"error":{"code":"unavailable","message":"too many large requests at once, try again"}}`)
	}
}
