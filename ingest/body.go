package ingest

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"github.com/gofiber/fiber/v2"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// zstdWindow bounds what a zstd frame may ask a decoder to remember: RFC 8878 asks for 8 MiB at least.
const zstdWindow = 8 << 20

var byteOrderMark = []byte("\xef\xbb\xbf")

// readBody returns the request's body, decompressed and without a byte order mark; at most limit bytes, else errTooLarge. The
// result is part of the request or of *buf.
func readBody(c *fiber.Ctx, limit int, buf *[]byte) ([]byte, error) {
	raw := c.Request().Body()
	encoding := c.Request().Header.Peek(fiber.HeaderContentEncoding)
	body, err := decompress(raw, string(bytes.ToLower(encoding)), limit, buf)
	if err != nil {
		return nil, err
	}
	return bytes.TrimPrefix(body, byteOrderMark), nil
}

func decompress(raw []byte, encoding string, limit int, buf *[]byte) ([]byte, error) {
	switch encoding {
	case "", "identity":
		if len(raw) > limit {
			return nil, errTooLarge
		}
		return raw, nil
	case "gzip", "x-gzip":
		return gunzip(raw, limit, buf)
	case "zstd":
		return unzstd(raw, limit, buf)
	}
	return nil, &apiError{Status: fiber.StatusUnsupportedMediaType, Code: "unsupported_encoding", Field: "Content-Encoding", Message: "want gzip or zstd"}
}

var errBadCompression = &apiError{Status: fiber.StatusBadRequest, Code: "bad_body", Message: "body does not decompress"}

var gzipReaders sync.Pool // of *gzip.Reader

func gunzip(raw []byte, limit int, buf *[]byte) ([]byte, error) {
	r, _ := gzipReaders.Get().(*gzip.Reader)
	if r == nil {
		r = new(gzip.Reader)
	}
	defer gzipReaders.Put(r)
	if err := r.Reset(bytes.NewReader(raw)); err != nil {
		return nil, errBadCompression
	}
	return readLimited(r, limit, buf)
}

var zstdReaders sync.Pool // of *zstd.Decoder

func unzstd(raw []byte, limit int, buf *[]byte) ([]byte, error) {
	r, _ := zstdReaders.Get().(*zstd.Decoder)
	if r == nil {
		var err error
		// With one decoder there is no goroutine to stop: a decoder that the pool lets go is just garbage.
		r, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, err
		}
	}
	defer func() {
		_ = r.Reset(nil)
		zstdReaders.Put(r)
	}()
	if err := r.Reset(bytes.NewReader(raw)); err != nil {
		return nil, errBadCompression
	}
	return readLimited(r, limit, buf)
}

// readLimited reads r to its end, into *buf. It stops one byte behind the limit, however much r would still give.
func readLimited(r io.Reader, limit int, buf *[]byte) ([]byte, error) {
	b := (*buf)[:0]
	if b == nil {
		b = make([]byte, 0, 4096)
	}
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):min(cap(b), limit+1)])
		b = b[:len(b)+n]
		*buf = b
		switch {
		case len(b) > limit:
			return nil, errTooLarge
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return nil, errBadCompression
		}
	}
}
