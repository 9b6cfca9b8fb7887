package ingest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/oklog/ulid/v2"
)

const (
	secretPrefix = "pt_"
	secretBytes  = 20 // random; 32 characters of base32
)

// ErrNoKey is returned by RevokeKey for an id that no key has.
var ErrNoKey = errors.New("no such key")

var secretEncoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// isSecret reports whether s could be a key's secret, so that nothing else is looked up.
func isSecret(s string) bool {
	body, ok := strings.CutPrefix(s, secretPrefix)
	return ok && len(body) == secretEncoding.EncodedLen(secretBytes)
}

// KeySpec is what a new key shall be good for.
type KeySpec struct {
	Name   string
	Scopes []string // at least one
	Sites  []string // empty: all
}

func (s KeySpec) check() error {
	if len(s.Scopes) == 0 {
		return errors.New("a key needs a scope: ingest, read or admin")
	}
	for _, scope := range s.Scopes {
		if !slices.Contains([]string{ScopeIngest, ScopeRead, ScopeAdmin}, scope) {
			return fmt.Errorf("unknown scope %q: want ingest, read or admin", scope)
		}
	}
	return nil
}

// KeyRecord is a row of the table keys.
type KeyRecord struct {
	Key
	Hash      string // SHA-256 of the secret in hex
	CreatedAt time.Time
	UpdatedAt time.Time
	Revoked   bool
}

// AddKey makes a key and returns its secret, "pt_" and 32 characters, which is stored nowhere and cannot be shown again.
func AddKey(ctx context.Context, conn driver.Conn, spec KeySpec) (secret string, key Key, err error) {
	if err := spec.check(); err != nil {
		return "", Key{}, err
	}
	random := make([]byte, secretBytes)
	_, _ = rand.Read(random) // never fails: the runtime ends the process first
	secret = secretPrefix + strings.ToLower(secretEncoding.EncodeToString(random))
	hash := sha256.Sum256([]byte(secret))
	key = Key{ID: strings.ToLower(ulid.Make().String()), Name: spec.Name, Scopes: spec.Scopes, Sites: spec.Sites}
	now := time.Now().UTC()
	record := KeyRecord{Key: key, Hash: hex.EncodeToString(hash[:]), CreatedAt: now, UpdatedAt: now}
	if err := insertKey(ctx, conn, record); err != nil {
		return "", Key{}, fmt.Errorf("store key: %w", err)
	}
	return secret, key, nil
}

// RevokeKey ends a key, for good. ErrNoKey when there is none of that id; ending an ended one is no error.
func RevokeKey(ctx context.Context, conn driver.Conn, id string) error {
	list, err := ListKeys(ctx, conn)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(r KeyRecord) bool { return r.ID == id })
	switch {
	case i < 0:
		return fmt.Errorf("%w: %q", ErrNoKey, id)
	case list[i].Revoked:
		return nil
	}
	record := list[i]
	record.Revoked = true
	// The newest row of an id counts, and clocks may differ: never older than the row it replaces.
	record.UpdatedAt = time.Now().UTC()
	if !record.UpdatedAt.After(list[i].UpdatedAt) {
		record.UpdatedAt = list[i].UpdatedAt.Add(time.Millisecond)
	}
	if err := insertKey(ctx, conn, record); err != nil {
		return fmt.Errorf("revoke key: %w", err)
	}
	return nil
}

// ListKeys reads all keys, revoked ones too, the oldest first.
func ListKeys(ctx context.Context, conn driver.Conn) ([]KeyRecord, error) {
	rows, err := conn.Query(ctx, `
		SELECT id, name, hash, scopes, sites, created_at, updated_at, revoked FROM keys FINAL ORDER BY created_at, id`)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var list []KeyRecord
	for rows.Next() {
		var r KeyRecord
		var revoked uint8
		if err := rows.Scan(&r.ID, &r.Name, &r.Hash, &r.Scopes, &r.Sites, &r.CreatedAt, &r.UpdatedAt, &revoked); err != nil {
			return nil, fmt.Errorf("read keys: %w", err)
		}
		r.Revoked = revoked != 0
		list = append(list, r)
	}
	return list, rows.Err()
}

func insertKey(ctx context.Context, conn driver.Conn, r KeyRecord) error {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"async_insert": 0}))
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO keys (id, name, hash, scopes, sites, created_at, updated_at, revoked)")
	if err != nil {
		return err
	}
	defer func() { _ = batch.Close() }()
	var revoked uint8
	if r.Revoked {
		revoked = 1
	}
	if err := batch.Append(r.ID, r.Name, r.Hash, notNil(r.Scopes), notNil(r.Sites), r.CreatedAt, r.UpdatedAt, revoked); err != nil {
		return err
	}
	return batch.Send()
}

func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
