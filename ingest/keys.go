package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Scopes of a key.
const (
	ScopeIngest = "ingest" // may write events
	ScopeRead   = "read"   // may read numbers
	ScopeAdmin  = "admin"  // may do both and change settings
)

// Key is an API key without its secret. The zero value stands for no key.
type Key struct {
	ID     string   `json:"id"`
	Name   string   `json:"name"`
	Scopes []string `json:"scopes"`
	Sites  []string `json:"sites"` // empty: all
}

// Has reports whether the key carries a scope; admin carries all.
func (k Key) Has(scope string) bool {
	return slices.Contains(k.Scopes, scope) || slices.Contains(k.Scopes, ScopeAdmin)
}

// MayWrite reports whether the key is for the site.
func (k Key) MayWrite(site string) bool {
	return len(k.Sites) == 0 || slices.Contains(k.Sites, site)
}

// keyMissWait is the least time between refreshes for secrets that nobody knows.
const keyMissWait = time.Second

// KeysConfig is what Keys need.
type KeysConfig struct {
	Path string           // of the file that holds the last known keys
	Conn driver.Conn      // whose default database has the table keys
	Now  func() time.Time // the clock; time.Now when nil
	Log  *slog.Logger
}

// Keys knows the API keys: those of the table keys, and the last known ones from a file while ClickHouse is away. A revoked key
// stops working within refreshPeriod on every node that reaches ClickHouse. It is safe for concurrent use.
type Keys struct {
	cfg KeysConfig

	current atomic.Pointer[map[[32]byte]Key] // by SHA-256 of the secret

	refreshing sync.Mutex // one refresh at a time
	lastMiss   time.Time  // refreshing
	file       *lastKnown // refreshing
}

// OpenKeys reads the file of the last known keys.
func OpenKeys(cfg KeysConfig) (*Keys, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	file, err := openLastKnown(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	keys, err := decodeKeys(file.written)
	if err != nil {
		return nil, fmt.Errorf("read keys %s: %w", cfg.Path, err)
	}
	k := &Keys{cfg: cfg, file: file}
	k.current.Store(&keys)
	return k, nil
}

// Lookup finds the key of a secret. For a secret that it does not know it looks into ClickHouse, at most once in keyMissWait, so
// that a new key works at once.
func (k *Keys) Lookup(secret string) (Key, bool) {
	if !isSecret(secret) {
		return Key{}, false
	}
	hash := sha256.Sum256([]byte(secret))
	if key, ok := (*k.current.Load())[hash]; ok {
		return key, true
	}
	k.refreshForMiss()
	key, ok := (*k.current.Load())[hash]
	return key, ok
}

func (k *Keys) refreshForMiss() {
	k.refreshing.Lock() // whoever waited finds the refresh of another done
	defer k.refreshing.Unlock()
	now := k.cfg.Now()
	if now.Sub(k.lastMiss) < keyMissWait {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), keyMissWait)
	defer cancel()
	_ = k.refreshLocked(ctx) // Run reports what is wrong with ClickHouse
	k.lastMiss = k.cfg.Now()
}

// Run refreshes the keys until ctx ends.
func (k *Keys) Run(ctx context.Context) error {
	return keepRefreshed(ctx, "keys", k.cfg.Log, k.Refresh)
}

// Refresh reads the keys from ClickHouse now.
func (k *Keys) Refresh(ctx context.Context) error {
	k.refreshing.Lock()
	defer k.refreshing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	return k.refreshLocked(ctx)
}

func (k *Keys) refreshLocked(ctx context.Context) error {
	if k.cfg.Conn == nil {
		return nil
	}
	list, err := ListKeys(ctx, k.cfg.Conn)
	if err != nil {
		return err
	}
	keys := make(map[[32]byte]Key, len(list))
	for _, r := range list {
		hash, err := hex.DecodeString(r.Hash)
		if err != nil || len(hash) != sha256.Size || r.Revoked {
			continue
		}
		keys[[32]byte(hash)] = r.Key
	}
	k.current.Store(&keys)
	if err := k.file.write(encodeKeys(keys)); err != nil {
		return fmt.Errorf("write keys: %w", err)
	}
	return nil
}

// keyLine is a line of the file.
type keyLine struct {
	Hash string `json:"hash"` // SHA-256 of the secret, in hex
	Key
}

func encodeKeys(keys map[[32]byte]Key) []byte {
	list := make([]string, 0, len(keys))
	for hash, key := range keys {
		line, err := json.Marshal(keyLine{hex.EncodeToString(hash[:]), key})
		if err != nil {
			panic(err) // strings always marshal
		}
		list = append(list, string(line)+"\n")
	}
	slices.Sort(list)
	var b []byte
	for _, line := range list {
		b = append(b, line...)
	}
	return b
}

func decodeKeys(data []byte) (map[[32]byte]Key, error) {
	keys := make(map[[32]byte]Key)
	for _, line := range lines(string(data)) {
		var l keyLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			return nil, err
		}
		hash, err := hex.DecodeString(l.Hash)
		if err != nil || len(hash) != sha256.Size {
			return nil, fmt.Errorf("hash of key %q is not SHA-256 in hex", l.ID)
		}
		keys[[32]byte(hash)] = l.Key
	}
	return keys, nil
}
