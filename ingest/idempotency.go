package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/gofiber/fiber/v2"
)

const (
	rememberedKeys    = 100_000
	idempotencyWindow = 48 * time.Hour // the claim window of event ids
	maxIdempotencyKey = 255            // bytes
)

// idempotencyKeys remembers which body an Idempotency-Key came with, so that another body under the same key is refused. It is a
// courtesy to senders with a mistake, bounded and not durable; exactness rests on the ids that idemID makes.
type idempotencyKeys struct {
	mu   sync.Mutex
	seen *lru.Cache[[32]byte, bodyMark]
	now  func() time.Time
}

type bodyMark struct {
	hash [16]byte
	at   time.Time
}

func newIdempotencyKeys(now func() time.Time) *idempotencyKeys {
	seen, err := lru.New[[32]byte, bodyMark](rememberedKeys)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &idempotencyKeys{seen: seen, now: now}
}

var errOtherBody = &apiError{Status: fiber.StatusUnprocessableEntity, Code: "idempotency_key_reused", Field: "Idempotency-Key",
	Message: "was used with another body"}

// use notes that body came under key. The returned function forgets it again, for a request of which nothing was stored.
func (k *idempotencyKeys) use(key [32]byte, body []byte) (forget func(), err error) {
	sum := sha256.Sum256(body)
	mark := bodyMark{hash: [16]byte(sum[:16]), at: k.now()}
	k.mu.Lock()
	defer k.mu.Unlock()
	old, ok := k.seen.Get(key)
	if ok && mark.at.Sub(old.at) < idempotencyWindow {
		if old.hash != mark.hash {
			return nil, errOtherBody
		}
		return func() {}, nil
	}
	k.seen.Add(key, mark)
	return func() { k.seen.Remove(key) }, nil
}

// idempotencyID is what a caller's Idempotency-Key is remembered by and what its items' ids are made from.
func idempotencyID(keyID, idempotencyKey string) [32]byte {
	return sha256.Sum256([]byte(keyID + "\x00" + idempotencyKey))
}

// idemID is the event id of an item that has none, by its place in the body as sent: a retry makes the same ids.
func idemID(key [32]byte, index int) string {
	sum := sha256.Sum256(strconv.AppendInt(append([]byte(nil), key[:]...), int64(index), 10))
	return "idem-" + hex.EncodeToString(sum[:16])
}
