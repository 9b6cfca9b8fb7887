package query

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/gofiber/fiber/v2"
)

// csvType is CSV with its line of names, by RFC 4180.
const csvType = "text/csv; charset=utf-8; header=present"

// csvWriter is an answer that can be written as CSV.
type csvWriter interface{ WriteCSV(w io.Writer) error }

// ask is the way of every question: who may ask, what is asked, the answer. The same question is answered once for all who ask it at
// the same time, and kept while it cannot change.
func ask[A csvWriter](s *Server, q Question, answer func(context.Context, Request) (A, error)) fiber.Handler {
	return func(c *fiber.Ctx) error {
		start := s.cfg.Now()
		r, asCSV, err := s.question(c, q, start)
		if err != nil {
			return s.reply(c, string(q), start, nil, err)
		}
		encode := func(ctx context.Context) (*encoded, error) {
			a, err := answer(ctx, r)
			if err != nil {
				return nil, err
			}
			return encode(a, asCSV)
		}
		if r.Mode == ModeRecent || r.Mode == ModeAuto {
			e, err := encode(c.UserContext()) // mostly there before a connection could be looked at
			return s.send(c, q, start, e, "", err)
		}
		ctx, stop := whileConnected(c)
		defer stop()
		if r.Explanation != nil {
			e, err := encode(ctx) // its own, with its own costs
			return s.send(c, q, start, e, "", err)
		}
		key := r.key(asCSV)
		if r.cacheable() {
			e, tag, err := s.kept(ctx, key, &r, encode)
			return s.send(c, q, start, e, tag, err)
		}
		e, err := s.running.do(ctx, key, encode)
		return s.send(c, q, start, e, "", err)
	}
}

// question reads who asks what, and whether as CSV.
func (s *Server) question(c *fiber.Ctx, q Question, now time.Time) (r Request, asCSV bool, err error) {
	values := queryValues(c)
	if err := s.admit(c, values.Get("site")); err != nil {
		return r, false, err
	}
	if asCSV, err = wantsCSV(c, values); err != nil {
		return r, false, err
	}
	r, err = Parse(q, values, s.cfg.Sites, now)
	return r, asCSV, err
}

// wantsCSV goes by format, else by Accept; it takes format out of the parameters.
func wantsCSV(c *fiber.Ctx, values url.Values) (bool, error) {
	format := values["format"]
	values.Del("format")
	switch {
	case len(format) == 0:
		return c.Accepts(fiber.MIMEApplicationJSON, "text/csv") == "text/csv", nil
	case len(format) == 1 && (format[0] == "csv" || format[0] == "json"):
		return format[0] == "csv", nil
	}
	return false, badParam("format", "want json or csv")
}

// key names a question: two of the same key have the same answer, asked at the same time.
func (r *Request) key(asCSV bool) string {
	plain := *r
	plain.Now, plain.KeptSince, plain.Explanation = time.Time{}, time.Time{}, nil
	text, err := json.Marshal(plain) // zones are in the range's ends and named besides
	if err != nil {
		panic(err) // a Request holds nothing that JSON cannot
	}
	return fmt.Sprint(asCSV, r.Range.Loc, r.Range.first.Unix(), r.Range.last.Unix(), r.zone(), string(text))
}

func encode(a csvWriter, asCSV bool) (*encoded, error) {
	if asCSV {
		var b bytes.Buffer
		if err := a.WriteCSV(&b); err != nil {
			return nil, err
		}
		return &encoded{body: b.Bytes(), contentType: csvType}, nil
	}
	body, err := json.Marshal(a)
	return &encoded{body: body, contentType: fiber.MIMEApplicationJSON}, err
}

// kept answers from memory while nothing has touched the days of r since.
func (s *Server) kept(ctx context.Context, key string, r *Request, encode func(context.Context) (*encoded, error)) (e *encoded, tag string, err error) {
	// Read before the answer: should something change meanwhile, the answer is not used again.
	changes, err := s.cfg.Store.changes(ctx, r)
	if err != nil {
		return nil, "", err
	}
	e, known := s.cache.get(key, changes)
	s.metrics.cached(known)
	if !known {
		e, err = s.running.do(ctx, fmt.Sprint(changes, key), func(ctx context.Context) (*encoded, error) {
			e, err := encode(ctx)
			if err == nil {
				e.changes = changes
				s.cache.put(key, e)
			}
			return e, err
		})
		if err != nil {
			return nil, "", err
		}
	}
	return e, e.tag(), nil
}

// send sends an answer. One with a tag may be kept by whoever asked, and asked for again by it.
func (s *Server) send(c *fiber.Ctx, q Question, start time.Time, e *encoded, tag string, err error) error {
	if err != nil {
		return s.reply(c, string(q), start, nil, err)
	}
	s.metrics.observe(string(q), "ok", s.cfg.Now().Sub(start))
	c.Set(fiber.HeaderCacheControl, "no-store")
	c.Vary(fiber.HeaderAccept, fiber.HeaderAcceptEncoding)
	if tag != "" {
		c.Set(fiber.HeaderCacheControl, "private, no-cache")
		c.Set(fiber.HeaderETag, tag)
		if hasTag(c.Get(fiber.HeaderIfNoneMatch), tag) {
			return c.Status(fiber.StatusNotModified).Send(nil)
		}
	}
	c.Set(fiber.HeaderContentType, e.contentType)
	return c.Send(e.body)
}
