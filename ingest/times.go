package ingest

import (
	"time"

	"github.com/valyala/fastjson"

	"github.com/pagetally/pagetally/schema"
)

// Bounds of client times, rule R9, in milliseconds.
const (
	maxUnkeyedAge = 7 * dayMillis
	clockDrift    = int64(5 * time.Minute / time.Millisecond)
)

// readTime reads a client's time: RFC 3339 text, or Unix milliseconds as a number.
func readTime(v *fastjson.Value) (ms int64, ok bool) {
	switch v.Type() {
	case fastjson.TypeNumber:
		ms, err := v.Int64()
		return ms, err == nil
	case fastjson.TypeString:
		t, err := time.Parse(time.RFC3339Nano, text(v.GetStringBytes()))
		return t.UnixMilli(), err == nil
	}
	return 0, false
}

// setUnkeyedTime gives e the time of a client that nobody vouches for. It never fails: a time that is unreadable, later than the
// receive time or over seven days old is replaced, and flagged when that moved the event by five minutes or more.
func setUnkeyedTime(e *schema.Event, v *fastjson.Value) {
	if v == nil || v.Type() == fastjson.TypeNull {
		return
	}
	ms, ok := readTime(v)
	setUnkeyedMillis(e, ms, ok)
}

// setUnkeyedMillis does as setUnkeyedTime with a time that was read already, if it could be.
func setUnkeyedMillis(e *schema.Event, ms int64, ok bool) {
	if ok && ms <= e.ReceivedAt && ms >= e.ReceivedAt-maxUnkeyedAge {
		e.TS = ms
		return
	}
	if !ok || ms >= e.ReceivedAt+clockDrift || ms < e.ReceivedAt {
		e.Flags |= schema.FlagTimeReplaced
	}
}

// setKeyedTime gives e the time of a keyed caller: any age, at most five minutes ahead.
func setKeyedTime(e *schema.Event, v *fastjson.Value) *itemError {
	ms, ok := readTime(v)
	if !ok {
		return &itemError{Field: "ts", Reason: BadField, Message: "want RFC 3339 text or Unix milliseconds"}
	}
	return setKeyedMillis(e, ms)
}

// setKeyedMillis does as setKeyedTime with a time that was read already.
func setKeyedMillis(e *schema.Event, ms int64) *itemError {
	switch {
	case ms > e.ReceivedAt+clockDrift:
		return &itemError{Field: "ts", Reason: Future, Message: "is more than 5 minutes ahead"}
	case ms < 0:
		return &itemError{Field: "ts", Reason: BadField, Message: "is before 1970"}
	}
	e.TS = ms
	return nil
}
