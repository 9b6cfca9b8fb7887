package ingest

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/pagetally/pagetally/ingest/journal"
)

// retryAfter is the Retry-After, in seconds, of a 503 whose cause names no other.
const retryAfter = 5

// apiError is an error in the form of the native API: {"error":{"code","field"?,"message"}}.
type apiError struct {
	Status  int    `json:"-"`
	Code    string `json:"code"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

func (e *apiError) Error() string { return e.Message }

func badRequest(field, message string) *apiError {
	return &apiError{Status: fiber.StatusBadRequest, Code: "bad_parameter", Field: field, Message: message}
}

var errTooLarge = &apiError{Status: fiber.StatusRequestEntityTooLarge, Code: "too_large", Message: "body is larger than the endpoint accepts"}

// FiberConfig is the configuration of the app that Register is called on. Slow clients are closed by the read timeout, bodies
// over MaxBatchBytes (as sent) answered 413, and errors written as JSON.
func FiberConfig() fiber.Config {
	return fiber.Config{
		AppName:               "pagetally",
		DisableStartupMessage: true,
		BodyLimit:             MaxBatchBytes,
		ReadBufferSize:        16 << 10, // the longest request line and headers
		ReadTimeout:           10 * time.Second,
		WriteTimeout:          30 * time.Second,
		IdleTimeout:           75 * time.Second,
		ErrorHandler:          WriteError,
		// A beacon is JSON: nothing is to be unpacked from forms into files.
		DisablePreParseMultipartForm: true,
	}
}

// WriteError answers err as {"error":{"code","field"?,"message"}}. What is neither an error of an API nor of fiber is a fault of
// the server: its text stays inside.
func WriteError(c *fiber.Ctx, err error) error {
	e := asAPIError(err)
	if e.Status == fiber.StatusServiceUnavailable {
		retryLater(c, err)
	}
	return c.Status(e.Status).JSON(fiber.Map{"error": e})
}

// retryLater tells the client when to come again after err, of which the reply is 503.
func retryLater(c *fiber.Ctx, err error) {
	c.Set(fiber.HeaderRetryAfter, strconv.Itoa(retrySeconds(err)))
}

func retrySeconds(err error) int {
	if after := journal.RetryAfter(err); after > 0 {
		return int((after + time.Second - 1) / time.Second)
	}
	return retryAfter
}

func asAPIError(err error) *apiError {
	var api *apiError
	var framework *fiber.Error
	switch {
	case errors.As(err, &api):
		return api
	case errors.Is(err, ErrNoSalt):
		return &apiError{Status: fiber.StatusServiceUnavailable, Code: "unavailable", Message: "no salt for visitor hashes yet, try again"}
	case errors.Is(err, journal.ErrTooLarge):
		return errTooLarge
	case errors.Is(err, journal.ErrFull), errors.Is(err, journal.ErrClosed), errors.Is(err, journal.ErrIO), errors.Is(err, context.DeadlineExceeded):
		return &apiError{Status: fiber.StatusServiceUnavailable, Code: "unavailable", Message: "events cannot be stored now, try again"}
	case errors.As(err, &framework):
		return &apiError{Status: framework.Code, Code: codeOf(framework.Code), Message: framework.Message}
	}
	return &apiError{Status: fiber.StatusInternalServerError, Code: "internal", Message: "internal error"}
}

func codeOf(status int) string {
	switch status {
	case fiber.StatusNotFound:
		return "not_found"
	case fiber.StatusMethodNotAllowed:
		return "method_not_allowed"
	case fiber.StatusRequestEntityTooLarge:
		return "too_large"
	case fiber.StatusRequestTimeout:
		return "timeout"
	}
	return "bad_request"
}

// edgeLog logs when the journal starts to refuse and when it takes events again, not each refusal.
type edgeLog struct {
	log     *slog.Logger
	refuses atomic.Bool
}

func (l *edgeLog) note(err error) {
	switch {
	case err == nil && l.refuses.Load() && l.refuses.CompareAndSwap(true, false):
		l.log.Info("journal accepts events again")
	case err != nil && l.refuses.CompareAndSwap(false, true):
		l.log.Warn("journal refuses events", "error", err)
	}
}
