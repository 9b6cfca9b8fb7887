package ingest

import (
	"bytes"
	"errors"

	"github.com/gofiber/fiber/v2"
)

// umamiBatchError is one item of a batch that was refused.
type umamiBatchError struct {
	Index    int `json:"index"`
	Response any `json:"response"`
}

// umamiBatchReply is the answer to a batch. Items that were filtered are processed, as Umami has it; the reason header tells of them.
type umamiBatchReply struct {
	Size      int               `json:"size"`
	Processed int               `json:"processed"`
	Errors    int               `json:"errors"`
	Details   []umamiBatchError `json:"details"` // of the errors
	Cache     string            `json:"cache,omitempty"`
}

// umamiBatch answers POST /api/batch: an array of what /api/send takes, in turn. Either all that counts is journaled, or nothing.
func (s *Server) umamiBatch(c *fiber.Ctx) error {
	return s.umami(c, MaxBatchBytes, func(r *umamiRequest, body []byte) error {
		items, err := umamiItems(body)
		if err != nil {
			return err
		}
		reply := umamiBatchReply{Size: len(items), Details: []umamiBatchError{}}
		var dropped []Reason
		for i, item := range items {
			one, err := r.item(item)
			if err != nil {
				return err
			}
			dropped = appendReason(dropped, one.reason)
			reply.add(i, one)
		}
		if err := r.store(); err != nil {
			return err
		}
		if len(dropped) > 0 {
			c.Set(HeaderReason, joinReasons(dropped))
		}
		return c.JSON(reply)
	})
}

func (reply *umamiBatchReply) add(index int, one umamiReply) {
	if one.status != fiber.StatusOK {
		reply.Errors++
		reply.Details = append(reply.Details, umamiBatchError{index, one.body})
		return
	}
	reply.Processed++
	if session, ok := one.body.(umamiSession); ok {
		reply.Cache = session.Cache
	}
}

var errNoArray = &apiError{Status: fiber.StatusBadRequest, Code: "bad_body", Message: "body is not a JSON array"}

func umamiItems(body []byte) ([][]byte, error) {
	body = bytes.TrimSpace(body)
	if len(body) == 0 || body[0] != '[' {
		return nil, errNoArray
	}
	items, err := splitArray(body, nil)
	if errors.Is(err, errEmptyBody) {
		return nil, nil // an empty array
	}
	return items, err
}
