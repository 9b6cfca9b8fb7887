package aggregate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"
)

// Keys in Redis. A claim's is
//
//	pagetally{cX}ID   X: first hexadecimal digit of ID, ID: the 16 bytes of the hash
//
// so that the claims of one script call lie in one slot of a cluster; beside those of each X stands
//
//	pagetally{cX}     hash: node -> "RUN_ID EPOCH", see claimScript
//
// A claim's value is, 36 bytes in all with whole numbers in big endian order,
//
//	segment 16, index 4, content 8, received_at in Unix milliseconds 8
//
// which with its key takes the least that Redis spends on a key with an expiry.
const (
	claimsPrefix = "pagetally{c"
	claimSlots   = 16
	ownerBytes   = 20
	claimBytes   = ownerBytes + 16
)

const (
	claimsChunk    = 512                          // claims of one script call, so that it blocks others for a millisecond or two
	claimsPipeline = claimSlots / 2 * claimsChunk // claims of one pipeline
)

func claimSlot(id [16]byte) byte { return id[0] >> 4 }

func slotKey(slot byte) string { return claimsPrefix + string("0123456789abcdef"[slot]) + "}" }

func claimKey(id [16]byte) string { return slotKey(claimSlot(id)) + string(id[:]) }

// encodeClaim makes a claim's value.
func encodeClaim(c Claim) string {
	b := make([]byte, 0, claimBytes)
	b = append(b, encodeOwner(c.Owner)...)
	b = binary.BigEndian.AppendUint64(b, c.Content)
	return string(binary.BigEndian.AppendUint64(b, uint64(c.ReceivedAt)))
}

// encodeOwner makes the part of the value that says who holds the id.
func encodeOwner(o Owner) string {
	return string(binary.BigEndian.AppendUint32(o.Segment[:len(o.Segment):len(o.Segment)], o.Index))
}

var errClaimValue = errors.New("not a claim's value")

// decodeClaim reads what encodeClaim made for id.
func decodeClaim(id [16]byte, value string) (Claim, error) {
	if len(value) != claimBytes {
		return Claim{}, fmt.Errorf("%w: %d bytes", errClaimValue, len(value))
	}
	b := []byte(value)
	return Claim{
		ID:         id,
		Owner:      Owner{Segment: ulid.ULID(b[:16]), Index: binary.BigEndian.Uint32(b[16:])},
		Content:    binary.BigEndian.Uint64(b[ownerBytes:]),
		ReceivedAt: int64(binary.BigEndian.Uint64(b[ownerBytes+8:])),
	}, nil
}

// Operations of claimScript.
const (
	opBegin  = "begin"  // a node starts to write its claims under the epoch ARGV[5], from ARGV[4] on or, if that is empty, from nothing
	opFinish = "finish" // it has written them: ARGV[4] becomes ARGV[5]
	opCheck  = "check"  // does ARGV[4] still stand?
	opWrite  = "write"  // under ARGV[4] or ARGV[5]; items: a value to hold or, an owner alone, to release; milliseconds to live
	opClaim  = "claim"  // items: a value to hold if the id is free; milliseconds to live. Answers with the values that hold
)

// claimScript does one operation on the claims of one slot, if the node's epoch stands under the server's own run id; else it answers
// 0. The run id is read inside the script, because a restarted server may have loaded what was written under the former one, and a
// connection may lead to another server than the one before. KEYS: the slot's hash, then a key for each item. ARGV: operation, node,
// run id (” asks the server), two arguments of the operation, then two for each item.
var claimScript = redis.NewScript(`
local op, node, run, epoch, new = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
if run == '' then
  run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
  if not run then return redis.error_reply('ERR the server does not tell its run_id') end
end
local state = redis.call('HGET', KEYS[1], node)
local stands, changed = state == run .. ' ' .. epoch, state == run .. ' ' .. new
if op == 'begin' or op == 'finish' then
  local free = op == 'begin' and epoch == ''
  if not stands and not changed and not free then return 0 end
  redis.call('HSET', KEYS[1], node, run .. ' ' .. new)
  return 1
end
if not stands and not (op == 'write' and changed) then return 0 end
if op == 'check' then return 1 end
local held = {}
for i = 2, #KEYS do
  local value, ttl = ARGV[2 * i + 2], ARGV[2 * i + 3]
  if op == 'claim' then
    local old = redis.call('SET', KEYS[i], value, 'NX', 'GET', 'PX', ttl)
    if old and string.sub(old, 1, 20) == string.sub(value, 1, 20) then old = false end
    held[i - 1] = old
  elseif #value > 20 then
    redis.call('SET', KEYS[i], value, 'PX', ttl)
  else
    local old = redis.call('GET', KEYS[i])
    if old and string.sub(old, 1, 20) == value then redis.call('DEL', KEYS[i]) end
  end
end
if op == 'claim' then return held end
return 1
`)

// errNotReady says that Redis does not hold all of this node's claims.
var errNotReady = errors.New("not all claims are in Redis")

// scriptCall is one call of claimScript.
type scriptCall struct {
	keys  []string
	args  []any
	items []int // numbers of the items among the caller's
	cmd   *redis.Cmd
}

func (r *RedisClaims) newCall(slot byte, op, epoch, next string) *scriptCall {
	run := ""
	if r.cfg.Embedded {
		run = "embedded"
	}
	return &scriptCall{keys: []string{slotKey(slot)}, args: []any{op, r.hooks.node, run, epoch, next}}
}

// everySlot does an operation without items on all slots.
func (r *RedisClaims) everySlot(ctx context.Context, op, epoch, next string) error {
	calls := make([]*scriptCall, claimSlots)
	for slot := range calls {
		calls[slot] = r.newCall(byte(slot), op, epoch, next)
	}
	return r.send(ctx, calls, func(*scriptCall, []any) error { return nil })
}

// write makes the changes in their order, under the one epoch or the other.
func (r *RedisClaims) write(ctx context.Context, epoch, or string, changes []change) error {
	item := func(i int) ([16]byte, string, int64) {
		c := changes[i]
		if c.release {
			return c.ID, encodeOwner(c.Owner), 0
		}
		return c.ID, encodeClaim(c.Claim), r.timeToLive(c.ReceivedAt)
	}
	return r.eachItem(ctx, opWrite, epoch, or, len(changes), item, func(*scriptCall, []any) error { return nil })
}

// ask claims ids and learns those that Redis holds for who asked, also if it fails for others.
func (r *RedisClaims) ask(ctx context.Context, asked []Claim) (holders []Claim, err error) {
	defer r.memory.forget()
	holders = slices.Clone(asked)
	now := r.now().UnixMilli()
	item := func(i int) ([16]byte, string, int64) { return asked[i].ID, encodeClaim(asked[i]), r.timeToLive(now) }
	err = r.eachItem(ctx, opClaim, r.epoch, "", len(asked), item, func(call *scriptCall, values []any) error {
		if len(values) != len(call.items) {
			return fmt.Errorf("%w: %d answers to %d", errClaimValue, len(values), len(call.items))
		}
		for n, value := range values {
			i := call.items[n]
			if value == nil {
				r.memory.learn(asked[i])
				continue
			}
			text, _ := value.(string)
			var err error
			if holders[i], err = decodeClaim(asked[i].ID, text); err != nil {
				return err
			}
		}
		return nil
	})
	return holders, err
}

// timeToLive is how long a claim made at a time is kept from now on, in milliseconds.
func (r *RedisClaims) timeToLive(at int64) int64 {
	end := at + (r.cfg.Window + r.cfg.JournalAge).Milliseconds()
	return max(end-r.now().UnixMilli(), minClaimTTL.Milliseconds())
}

// eachItem makes the calls for n items and sends them, some at a time.
func (r *RedisClaims) eachItem(ctx context.Context, op, epoch, next string, n int,
	item func(int) (id [16]byte, value string, ttl int64), use func(*scriptCall, []any) error,
) error {
	for from := 0; from < n; from += claimsPipeline {
		var calls []*scriptCall
		var open [claimSlots]*scriptCall
		for i := from; i < min(n, from+claimsPipeline); i++ {
			id, value, ttl := item(i)
			slot := claimSlot(id)
			call := open[slot]
			if call == nil || len(call.items) == claimsChunk {
				call = r.newCall(slot, op, epoch, next)
				open[slot], calls = call, append(calls, call)
			}
			call.keys = append(call.keys, claimKey(id))
			call.args = append(call.args, value, ttl)
			call.items = append(call.items, i)
		}
		if err := r.send(ctx, calls, use); err != nil {
			return err
		}
	}
	return nil
}

// send makes the calls in one pipeline and hands over the answers that came, whatever became of the others.
func (r *RedisClaims) send(ctx context.Context, calls []*scriptCall, use func(*scriptCall, []any) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	began := r.now()
	pipe := r.client.Pipeline()
	for _, call := range calls {
		call.cmd = claimScript.EvalSha(ctx, pipe, call.keys, call.args...)
	}
	_, _ = pipe.Exec(ctx) // each call has its own error
	var failed error
	for _, call := range calls {
		if redis.HasErrorPrefix(call.cmd.Err(), "NOSCRIPT") {
			call.cmd = claimScript.Eval(ctx, r.client, call.keys, call.args...)
		}
		if err := answer(call, use); err != nil && (failed == nil || errors.Is(err, errNotReady)) {
			failed = err
		}
	}
	r.metrics.seconds.Observe(r.now().Sub(began).Seconds())
	return failed
}

func answer(call *scriptCall, use func(*scriptCall, []any) error) error {
	got, err := call.cmd.Result()
	if err != nil {
		return fmt.Errorf("ask Redis for claims: %w", err)
	}
	switch got := got.(type) {
	case int64:
		if got == 0 {
			return errNotReady
		}
		return use(call, nil)
	case []any:
		return use(call, got)
	}
	return fmt.Errorf("%w: answer of type %T", errClaimValue, got)
}
