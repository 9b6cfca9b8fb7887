package ingest

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
)

const (
	tokenSecretBytes = 32
	maxTokenBytes    = 1024
	visitIdle        = 30 * time.Minute // a visit ends after as much silence
)

// OpenSecret reads the secret at path by which a node knows the tokens that it gave out, or makes one, on disk when it returns.
func OpenSecret(path string) ([]byte, error) {
	data, err := readSecret(path)
	if err != nil {
		return nil, fmt.Errorf("read secret: %w", err)
	}
	if data != nil {
		secret, err := hex.DecodeString(strings.TrimSpace(string(data)))
		if err != nil || len(secret) != tokenSecretBytes {
			return nil, fmt.Errorf("read secret %s: not %d bytes in hex", path, tokenSecretBytes)
		}
		return secret, nil
	}
	secret := newSecret()
	if err := writeSecret(path, []byte(hex.EncodeToString(secret)+"\n")); err != nil {
		return nil, fmt.Errorf("write secret: %w", err)
	}
	return secret, nil
}

func newSecret() []byte {
	secret := make([]byte, tokenSecretBytes)
	_, _ = rand.Read(secret) // never fails: the runtime ends the process first
	return secret
}

// umamiToken is what the cache token of a reply holds: the visit that the next request belongs to if it comes soon enough. The
// server keeps nothing of it.
type umamiToken struct {
	WebsiteID string `json:"websiteId"`
	SessionID string `json:"sessionId"`
	VisitID   string `json:"visitId"`
	IssuedAt  int64  `json:"iat"` // Unix seconds
}

// umamiTokens writes and reads tokens in the form of RFC 7519 (JWT), signed with HMAC-SHA-256. Tokens of another node, under another
// secret, are ignored like forged ones: a visit begins anew, no count depends on it.
type umamiTokens struct{ secret []byte }

// tokenHeader is the one header that tokens have: no token chooses how it is checked.
var tokenHeader = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`))

func (t umamiTokens) sign(token umamiToken) string {
	claims, err := json.Marshal(token)
	if err != nil {
		panic(err) // strings and a number always marshal
	}
	signed := tokenHeader + "." + base64.RawURLEncoding.EncodeToString(claims)
	return signed + "." + base64.RawURLEncoding.EncodeToString(t.mac(signed))
}

var errBadToken = errors.New("bad token")

func (t umamiTokens) parse(s string) (token umamiToken, err error) {
	dot := strings.LastIndexByte(s, '.')
	if len(s) > maxTokenBytes || dot < 0 {
		return umamiToken{}, errBadToken
	}
	mac, err := base64.RawURLEncoding.DecodeString(s[dot+1:])
	if err != nil || !hmac.Equal(mac, t.mac(s[:dot])) {
		return umamiToken{}, errBadToken
	}
	header, claims, _ := strings.Cut(s[:dot], ".")
	data, err := base64.RawURLEncoding.DecodeString(claims)
	if err != nil || header != tokenHeader || json.Unmarshal(data, &token) != nil {
		return umamiToken{}, errBadToken
	}
	return token, nil
}

func (t umamiTokens) mac(signed string) []byte {
	h := hmac.New(sha256.New, t.secret)
	h.Write([]byte(signed))
	return h.Sum(nil)
}

// id is a UUID made of parts, which nobody can make or trace back without the secret.
func (t umamiTokens) id(kind string, parts ...[]byte) string {
	h := hmac.New(sha256.New, t.secret)
	h.Write([]byte(kind))
	for _, part := range parts {
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write(part)
	}
	id := uuid.UUID(h.Sum(nil)[:16])
	id[6] = id[6]&0x0f | 0x80 // version 8: of the maker's own choice
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return id.String()
}

// visit answers an event with the session of its visitor, which lasts as long as the visitor's hash, and with its visit: that of the
// last token, or a new one after half an hour of silence.
func (r *umamiRequest) visit(h *hit) umamiSession {
	tokens, now := r.server.tokens, r.by.received
	next := umamiToken{
		WebsiteID: WebsiteID(h.site.Domain),
		SessionID: tokens.id("session", []byte(h.site.Domain), binary.LittleEndian.AppendUint64(nil, h.event.Visitor)),
		IssuedAt:  now.Unix(),
	}
	begin := now.Truncate(time.Hour) // without a token, requests of an hour belong together
	if last := r.token; last.SessionID == next.SessionID {
		next.VisitID = last.VisitID
		begin = now
		if now.Sub(time.Unix(last.IssuedAt, 0)) >= visitIdle {
			next.VisitID = ""
		}
	}
	if next.VisitID == "" {
		next.VisitID = tokens.id("visit", []byte(next.SessionID), binary.LittleEndian.AppendUint64(nil, uint64(begin.Unix())))
	}
	r.token = next
	return umamiSession{Cache: tokens.sign(next), SessionID: next.SessionID, VisitID: next.VisitID}
}
