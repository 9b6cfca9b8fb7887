package aggregate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// ErrClaimsAway says that Redis cannot tell who owns an id and that the policy is not to look elsewhere. Rows with an id wait.
var ErrClaimsAway = errors.New("claims are away")

// ClaimsPolicy says what becomes of rows with an id while Redis cannot be asked.
type ClaimsPolicy string

// The policies.
const (
	// ClaimsLookup looks into the `event_ids` table and what this node has in hand, so that counting goes on. Two nodes that are given
	// the same id within the time a delivery takes may both count it.
	ClaimsLookup ClaimsPolicy = "lookup"
	// ClaimsWait parks rows that carry an id, and only those, until Redis is back.
	ClaimsWait ClaimsPolicy = "wait"
)

// RedisClaims keeps claims in Redis, where all nodes find them. Redis is trusted only while it is certain to hold everything: a script
// claims ids, and it refuses unless the server's own run id and this node's epoch stand beside the claims. A restart, a failover and a
// FLUSHALL change one of them, and a node that claimed anything without Redis gives its epoch up; either way the claims are written
// anew, from the `event_ids` table and what this node has in hand, before Redis is asked again (redisclaims_rebuild.go).
//
// The epoch also lies in the journal while Redis holds all of this node's claims: a process that dies during an outage leaves none, and
// the next one does not believe a Redis that slept through it.
//
// Of several nodes each writes its own undelivered claims when it next looks, within claimsLook. Until it did, the others may be told
// that such an id is free: as with ClaimsLookup, the same id given to two nodes within that time may count twice.
//
// Only Delivery.Run's goroutine may use it, but for Ready and Check.
type RedisClaims struct {
	cfg     RedisClaimsConfig
	client  redis.UniversalClient
	log     *slog.Logger
	metrics *claimsMetrics
	now     func() time.Time
	hooks   claimHooks
	// memory knows the claims of this node that the table may lack, and asks the table for the rest.
	memory *MemoryClaims

	up    bool
	epoch string // that Redis and the journal hold while up, or that can be gone on from; "" for none
	filed bool   // the journal holds epoch
	build build  // the way back up
	noted time.Time
	look  time.Time // when to see next whether an idle Redis still holds the claims
	away  atomic.Pointer[string]
}

// RedisClaimsConfig says what RedisClaims work with. Client and Conn are needed.
type RedisClaimsConfig struct {
	// Client must obey contexts (ContextTimeoutEnabled), or a Redis that hangs holds deliveries up for longer than Timeout. Redis has to
	// be version 7 or later, and its user may run EVALSHA, EVAL, INFO, GET, SET, DEL, HGET and HSET.
	Client redis.UniversalClient
	Conn   Conn
	// Embedded is for a Redis inside this process, which has no run id and needs none: its claims end with it.
	Embedded bool

	Policy     ClaimsPolicy  // default ClaimsLookup
	Window     time.Duration // how long an event id is remembered: 48 h by default, never under 24 h
	JournalAge time.Duration // greatest age of an event when it is delivered, default 24 h: claims live for Window and this
	Held       int           // claims held in memory for outages, default 400,000 (some 150 bytes each)
	Timeout    time.Duration // for one call of at most claimsPipeline claims, default 250 ms

	Log     *slog.Logger
	Metrics prometheus.Registerer // nil registers nothing
}

// claimHooks are what a Delivery tells the claims.
type claimHooks struct {
	node   string
	pinned func(ulid.ULID) bool                           // the segment is in this node's journal, undelivered
	stored func(context.Context, ulid.ULID) (bool, error) // the ledger has the segment
	files  epochFile
}

// epochFile is where the epoch is kept beside the journal.
type epochFile interface {
	ReadFile(folder, name string) ([]byte, error)
	WriteFile(folder, name string, content []byte) error
	RemoveFile(folder, name string) error
}

const (
	claimsLook         = 5 * time.Second // between two looks at a Redis that is not asked
	claimsBackoffFirst = 100 * time.Millisecond
	claimsBackoffMost  = 5 * time.Second
	// Time that writing claims anew may take of Run's goroutine: before a group is decided, and when there is nothing else to do.
	claimsBuildBusy = 100 * time.Millisecond
	claimsBuildIdle = 250 * time.Millisecond
)

// NewRedisClaims checks cfg and returns claims that do nothing until they are given to a Delivery, as Config.Claims, and it runs.
func NewRedisClaims(cfg RedisClaimsConfig) (*RedisClaims, error) {
	if cfg.Client == nil || cfg.Conn == nil {
		return nil, errors.New("claims in Redis need a Redis and a connection")
	}
	cfg.Policy = cmp.Or(cfg.Policy, ClaimsLookup)
	if cfg.Policy != ClaimsLookup && cfg.Policy != ClaimsWait {
		return nil, fmt.Errorf("claims policy %q is neither %s nor %s", cfg.Policy, ClaimsLookup, ClaimsWait)
	}
	cfg.Window = defaultTo(cfg.Window, 48*time.Hour)
	if cfg.Window < minWindow {
		return nil, fmt.Errorf("claim window %v is under %v", cfg.Window, minWindow)
	}
	cfg.JournalAge = defaultTo(cfg.JournalAge, 24*time.Hour)
	cfg.Held = defaultTo(cfg.Held, 400_000)
	cfg.Timeout = defaultTo(cfg.Timeout, 250*time.Millisecond)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	r := &RedisClaims{
		cfg: cfg, client: cfg.Client, log: cfg.Log, metrics: newClaimsMetrics(cfg.Metrics), now: time.Now,
		memory: NewMemoryClaims(cfg.Conn, cfg.Window+cfg.JournalAge, cfg.Held),
	}
	r.memory.completeSince = math.MaxInt64 // other nodes store ids as well: the table is always asked
	return r, nil
}

// attach is called by the Delivery that the claims are for, before anything else.
func (r *RedisClaims) attach(hooks claimHooks) {
	r.hooks = hooks
	r.memory.pinned = hooks.pinned
}

// epochName is the file in the folder of the decisions that holds the epoch.
const epochName = "claims.epoch"

// load takes up the epoch that a former process left. It is called before the claims of what that left undelivered are asserted.
func (r *RedisClaims) load() error {
	r.up, r.epoch, r.filed, r.noted = false, "", false, r.now()
	content, err := r.hooks.files.ReadFile(decisionsDir, epochName)
	switch {
	case err == nil:
		r.epoch, r.filed = string(content), true
	case !isNoFile(err):
		return fmt.Errorf("read epoch of claims: %w", err)
	}
	r.build = newBuild()
	return nil
}

// Claim implements Claims.
func (r *RedisClaims) Claim(ctx context.Context, asked []Claim) ([]Claim, error) {
	r.metrics.asked.Add(float64(len(asked)))
	r.noteOutage()
	holders, err := r.claim(ctx, asked)
	if err != nil {
		return nil, err
	}
	for i, holder := range holders {
		if holder.Owner != asked[i].Owner {
			r.metrics.others.Inc()
		}
	}
	return holders, nil
}

func (r *RedisClaims) claim(ctx context.Context, asked []Claim) ([]Claim, error) {
	doubtful := false // Redis may hold some of the ids for those who ask without having said so
	for range 2 {     // a Redis that lost little is complete again at once
		if !r.up && !r.advance(ctx, claimsBuildBusy) {
			break
		}
		holders, err := r.ask(ctx, asked)
		if err == nil {
			return holders, r.resolveVanished(ctx, asked, holders)
		}
		doubtful = true
		r.down(ctx, err)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err := r.giveUpEpoch(); err != nil {
		return nil, err
	}
	if r.cfg.Policy == ClaimsWait {
		r.withdraw(asked, doubtful)
		return nil, fmt.Errorf("%w: %w", ErrClaimsAway, cmp.Or(r.Ready(), errNotReady))
	}
	holders, err := r.memory.Claim(ctx, asked)
	if err != nil {
		return nil, err
	}
	r.metrics.fallback.Add(float64(len(asked)))
	for _, holder := range holders {
		r.remember(change{Claim: holder})
	}
	return holders, nil
}

// withdraw frees ids of rows that will be parked: they will ask again under other owners, and Redis may hold them for these.
func (r *RedisClaims) withdraw(asked []Claim, doubtful bool) {
	for _, claim := range asked {
		if doubtful || r.memory.held[claim.ID].Owner == claim.Owner {
			r.remember(change{Claim: claim, release: true})
		}
	}
	_ = r.memory.Release(context.Background(), asked) // which cannot fail
}

// Assert implements Claims.
func (r *RedisClaims) Assert(ctx context.Context, claims []Claim) error {
	if err := r.memory.Assert(ctx, claims); err != nil {
		return err
	}
	return r.change(ctx, claims, false)
}

// Release implements Claims.
func (r *RedisClaims) Release(ctx context.Context, claims []Claim) error {
	if err := r.memory.Release(ctx, claims); err != nil {
		return err
	}
	return r.change(ctx, claims, true)
}

// change makes changes in Redis, or remembers them for when it is there.
func (r *RedisClaims) change(ctx context.Context, claims []Claim, release bool) error {
	if len(claims) == 0 {
		return nil
	}
	changes := make([]change, len(claims))
	for i, claim := range claims {
		changes[i] = change{Claim: claim, release: release}
	}
	if r.up || r.advance(ctx, claimsBuildBusy) {
		err := r.write(ctx, r.epoch, "", changes)
		if err == nil || ctx.Err() != nil {
			return err
		}
		r.down(ctx, err)
	}
	if err := r.giveUpEpoch(); err != nil {
		return err
	}
	for _, c := range changes {
		r.remember(c)
	}
	return nil
}

// giveUpEpoch comes before anything is claimed without Redis: should this process end before it told Redis, the next one has to
// write everything anew.
func (r *RedisClaims) giveUpEpoch() error {
	if !r.filed {
		return nil
	}
	if err := r.hooks.files.RemoveFile(decisionsDir, epochName); err != nil {
		return fmt.Errorf("give up epoch of claims: %w", err)
	}
	r.filed = false
	return nil
}

var errNotReleased = errors.New("ids held for events that were not stored could not be released")

// resolveVanished finds ids that Redis holds for events that will never count, frees them and asks again. Such claims are left by a
// process that died while Redis was away, before it could release them: their segment is stored, but without them.
func (r *RedisClaims) resolveVanished(ctx context.Context, asked, holders []Claim) error {
	var suspects []int
	var ids []string
	recent := r.now().Add(-r.cfg.Window).UnixMilli() // older ones may have left the table
	for i, holder := range holders {
		if holder.Owner == asked[i].Owner || holder.ReceivedAt < recent || r.hooks.pinned(holder.Owner.Segment) ||
			r.memory.held[holder.ID].Owner == holder.Owner {
			continue
		}
		stored, err := r.hooks.stored(ctx, holder.Owner.Segment)
		if err != nil {
			return fmt.Errorf("ask the ledger for an owner: %w", err)
		}
		if stored {
			suspects, ids = append(suspects, i), append(ids, string(holder.ID[:]))
		}
	}
	known := map[[16]byte]bool{}
	for len(ids) > 0 {
		chunk := ids[:min(len(ids), lookupChunk)]
		ids = ids[len(chunk):]
		found, err := r.memory.ask(ctx, chunk, r.memory.since(asked))
		if err != nil {
			return err
		}
		for _, claim := range found {
			known[claim.ID] = true
		}
	}
	var vanished, again []Claim
	var at []int
	for _, i := range suspects {
		if !known[holders[i].ID] {
			vanished, again, at = append(vanished, holders[i]), append(again, asked[i]), append(at, i)
		}
	}
	if len(vanished) == 0 {
		return nil
	}
	r.log.Info("ids held for events that were not stored are free again", "ids", len(vanished))
	if err := r.Release(ctx, vanished); err != nil {
		return err
	}
	if !r.up {
		return errNotReleased // the delivery asks for the whole group again
	}
	found, err := r.ask(ctx, again)
	if err != nil {
		r.down(ctx, err)
		return fmt.Errorf("claim ids that are free again: %w", err)
	}
	for i, holder := range found {
		holders[at[i]] = holder
	}
	return nil
}

// waiting says that rows with an id cannot be decided now.
func (r *RedisClaims) waiting() bool { return r.cfg.Policy == ClaimsWait && !r.up }

// tend is called every now and then: it goes on with writing claims anew, or sees whether Redis still holds them.
func (r *RedisClaims) tend(ctx context.Context) {
	r.noteOutage()
	switch {
	case !r.up:
		r.advance(ctx, claimsBuildIdle)
	case !r.now().Before(r.look):
		r.look = r.now().Add(claimsLook)
		if err := r.everySlot(ctx, opCheck, r.epoch, ""); err != nil {
			r.down(ctx, err)
		}
	}
}

func (r *RedisClaims) noteOutage() {
	now := r.now()
	if !r.up {
		r.metrics.outage.Add(max(0, now.Sub(r.noted).Seconds()))
	}
	r.noted = now
}

// Ready is nil while Redis can be asked for claims. It may be called from any goroutine.
func (r *RedisClaims) Ready() error {
	if reason := r.away.Load(); reason != nil {
		return errors.New(*reason)
	}
	return nil
}
