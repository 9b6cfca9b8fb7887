package ingest

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/dchest/siphash"
)

const dayMillis = int64(24 * time.Hour / time.Millisecond)

// Day is a calendar day by a site's own clock, counted from 1970-01-01.
type Day int32

// dayOf is the calendar day in zone of an instant in Unix milliseconds.
func dayOf(ms int64, zone *time.Location) Day {
	if zone != time.UTC {
		_, offset := time.UnixMilli(ms).In(zone).Zone()
		ms += int64(offset) * 1000
	}
	day := ms / dayMillis
	if ms%dayMillis < 0 {
		day--
	}
	return Day(day)
}

// String is the day as 2006-01-02.
func (d Day) String() string { return time.Unix(int64(d)*86400, 0).UTC().Format(time.DateOnly) }

// identify gives the event its visitor: SipHash-2-4 under the day's salt over site, day, address and agent. Neither address nor
// agent known: visitor 0, which no visitor count includes. A dialect whose sender names its visitors has the name hashed instead.
//
// A day whose salt is gone (an event sent days late by a keyed caller) is hashed under the salt of the day of receipt. The day
// is part of what is hashed, so its visitors are told apart all the same.
func (s *Server) identify(h *hit, scratch *[]byte) error {
	if h.nobody || !h.ip.IsValid() && h.agent == "" && h.person == "" {
		return nil
	}
	day := dayOf(h.event.TS, h.site.Zone)
	salt, err := s.salts.For(day)
	if errors.Is(err, ErrSaltGone) {
		salt, err = s.salts.For(dayOf(h.event.ReceivedAt, h.site.Zone))
	}
	if err != nil {
		return err
	}
	b := append((*scratch)[:0], h.event.Site...)
	b = append(b, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(day))
	b = h.appendIdentity(b)
	*scratch = b
	h.event.Visitor = siphash.Hash(binary.LittleEndian.Uint64(salt[:8]), binary.LittleEndian.Uint64(salt[8:]), b)
	if h.event.Visitor == 0 {
		h.event.Visitor = 1
	}
	return nil
}

func (h *hit) appendIdentity(b []byte) []byte {
	if h.person == "" {
		ip := h.ip.As16() // the zero address stands for "unknown"
		return append(append(b, ip[:]...), h.agent...)
	}
	for range 16 {
		b = append(b, 0xff) // is no client's address
	}
	return append(b, h.person...)
}
