package ingest

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestKeys(t *testing.T) {
	conn := migrated(t)
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "keys")
	now := time.Now()
	keys, err := OpenKeys(KeysConfig{Path: path, Conn: conn, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	secret, key, err := AddKey(ctx, conn, KeySpec{Name: "job", Scopes: []string{ScopeIngest}, Sites: []string{"example.com"}})
	if err != nil {
		t.Fatal(err)
	}
	if !isSecret(secret) || len(secret) != 35 || strings.ToLower(secret) != secret {
		t.Errorf("secret %q", secret)
	}
	got, ok := keys.Lookup(secret) // unknown so far: found by looking into the table
	if !ok || got.ID != key.ID || !got.Has(ScopeIngest) || got.Has(ScopeRead) || !got.MayWrite("example.com") || got.MayWrite("example.org") {
		t.Errorf("looked up %+v, %v, want %+v", got, ok, key)
	}

	// Misses do not reach ClickHouse more than once a second.
	second, _, err := AddKey(ctx, conn, KeySpec{Name: "reader", Scopes: []string{ScopeAdmin}})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := keys.Lookup(second); ok {
		t.Error("a second miss within a second asked again")
	}
	now = now.Add(keyMissWait)
	if got, ok := keys.Lookup(second); !ok || !got.Has(ScopeRead) {
		t.Errorf("a second later: %+v, %v", got, ok)
	}

	// The file serves while ClickHouse is away, and tells no secret.
	data, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(data), secret[len(secretPrefix):]) {
		t.Errorf("file: %v, or it holds a secret: %s", err, data)
	}
	offline, err := OpenKeys(KeysConfig{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := offline.Lookup(secret); !ok || got.ID != key.ID || got.MayWrite("example.org") {
		t.Errorf("offline: %+v, %v", got, ok)
	}

	if err := RevokeKey(ctx, conn, key.ID); err != nil {
		t.Fatal(err)
	}
	if err := RevokeKey(ctx, conn, key.ID); err != nil {
		t.Errorf("revoked again: %v", err)
	}
	if err := RevokeKey(ctx, conn, "nope"); !errors.Is(err, ErrNoKey) {
		t.Errorf("revoke of no key: %v, want ErrNoKey", err)
	}
	if err := keys.Refresh(ctx); err != nil {
		t.Fatal(err)
	}
	if _, ok := keys.Lookup(secret); ok {
		t.Error("a revoked key works")
	}
	list, err := ListKeys(ctx, conn)
	if err != nil || len(list) != 2 || !list[0].Revoked || list[1].Revoked || list[0].Name != "job" {
		t.Errorf("list %+v, %v", list, err)
	}
}

func TestKeySpec(t *testing.T) {
	for _, spec := range []KeySpec{{Name: "a"}, {Scopes: []string{"write"}}} {
		if _, _, err := AddKey(t.Context(), nil, spec); err == nil {
			t.Errorf("%+v is taken", spec)
		}
	}
}

func TestKeysRefuseABadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys")
	for _, content := range []string{"x", `{"hash":"00","id":"a"}`} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenKeys(KeysConfig{Path: path}); err == nil {
			t.Errorf("%q is taken for keys", content)
		}
	}
}

func TestLookupOfNoSecret(t *testing.T) {
	k := testKeys(t, t.TempDir())
	for _, s := range []string{"", "pt_", "pt_short", strings.Repeat("a", 35), ingestSecret + "a"} {
		if key, ok := k.Lookup(s); ok {
			t.Errorf("%q is the secret of %+v", s, key)
		}
	}
	if _, ok := (*k.current.Load())[sha256.Sum256([]byte(ingestSecret))]; !ok {
		t.Error("the rig's key is missing")
	}
}
