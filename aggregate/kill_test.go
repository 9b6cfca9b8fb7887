package aggregate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/redis/go-redis/v9"

	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema"
)

func journalOptions() journal.Options { return journal.Options{} }

// childEnv makes the test binary a delivering process that kills itself.
const childEnv = "PAGETALLY_TEST_DELIVERY"

type childConfig struct {
	Dir, Addr, User, Password, Database string
	Redis                               string
	KillAt                              int           // number of the step to die at, 0 for never
	KillIn                              time.Duration // after an intent is written, 0 for never
}

// runChild delivers what the journal holds. At the KillAt-th step the process is gone as by kill -9.
func runChild() int {
	var cfg childConfig
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if err := deliverAll(cfg); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func deliverAll(cfg childConfig) error {
	conn, err := clickhouse.Open(&clickhouse.Options{
		Addr: []string{cfg.Addr}, Auth: clickhouse.Auth{Database: cfg.Database, Username: cfg.User, Password: cfg.Password},
	})
	if err != nil {
		return err
	}
	j, err := journal.Open(journal.Options{Dir: cfg.Dir, Format: schema.EventFormat})
	if err != nil {
		return err
	}
	var claims Claims
	if cfg.Redis != "" {
		client := redis.NewClient(&redis.Options{Addr: cfg.Redis, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
		defer func() { _ = client.Close() }()
		if claims, err = NewRedisClaims(RedisClaimsConfig{Client: client, Conn: conn}); err != nil {
			return err
		}
	}
	steps := 0
	kill := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }
	d, err := New(Config{Conn: conn, Journal: j, Node: j.Node(), Claims: claims, Parallel: 1, Step: func(step string) {
		if cfg.KillIn > 0 && step == "delivery: after the intent" {
			time.AfterFunc(cfg.KillIn, kill)
		}
		if steps++; steps == cfg.KillAt {
			kill()
			select {}
		}
	}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	for j.Stats().SealedSegments > 0 {
		if err := d.pause(ctx, 5*time.Millisecond); err != nil {
			return errors.Join(err, d.Ready())
		}
	}
	cancel()
	return errors.Join(<-done, j.Close())
}

// child delivers in a process of its own and reports whether it was killed.
func (r *rig) child(killAt int) (killed bool) {
	r.t.Helper()
	return r.childWith(killAt, 0)
}

// childKilledIn is a child that is killed that long after its first intent, if it has not ended by then.
func (r *rig) childKilledIn(in time.Duration) (killed bool) {
	r.t.Helper()
	return r.childWith(0, in)
}

func (r *rig) childWith(killAt int, killIn time.Duration) (killed bool) {
	r.t.Helper()
	opts := r.server.Options(r.db)
	env, err := json.Marshal(childConfig{
		Dir: r.dir, Addr: opts.Addr[0], User: opts.Auth.Username, Password: opts.Auth.Password, Database: r.db,
		Redis: r.redis, KillAt: killAt, KillIn: killIn,
	})
	if err != nil {
		r.t.Fatal(err)
	}
	cmd := exec.CommandContext(r.t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(env))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true
	}
	if err != nil {
		r.t.Fatalf("delivering process: %v\n%s", err, out)
	}
	return false
}

// fillJournal journals new events and copies of ids that were used before, then closes the journal for a child.
func (r *rig) fillJournal(round int) (rows int64) {
	r.open(journalOptions())
	for i := range 20 {
		r.count(r.event())
		e := r.event()
		e.EventID = fmt.Sprintf("round-%d-%d", round, i)
		r.count(e)
		r.append(e)
		rows += 3
	}
	old := r.event()
	old.EventID = "used in every round"
	old.Path = "/once"
	if round == 0 {
		r.count(old)
	} else {
		r.append(old)
	}
	r.close()
	return rows + 1
}

func TestKilledAtEveryStep(t *testing.T) {
	r := newRig(t)
	r.close()
	var accepted int64
	round, reached := 0, 0
	for killAt := 1; ; killAt++ {
		accepted += r.fillJournal(round)
		round++
		if !r.child(killAt) {
			break
		}
		reached = killAt
		// The process that recovers is killed as well, at a step that moves on with the rounds.
		r.child(1 + killAt%7)
		r.child(0)
		r.requireExact()
		r.requireBalanced(accepted)
		if t.Failed() {
			t.Fatalf("after a kill at step %d", killAt)
		}
	}
	if reached < 8 {
		t.Errorf("only %d steps were reached", reached)
	}
	r.requireExact()
	r.requireBalanced(accepted)
}

// TestKilledAtEveryStepOfRecovery kills right after the INSERT, so that the next process settles, and that one at each of its steps.
func TestKilledAtEveryStepOfRecovery(t *testing.T) {
	r := newRig(t)
	r.close()
	var accepted int64
	for killAt, round := 1, 0; ; killAt, round = killAt+1, round+1 {
		accepted += r.fillJournal(round)
		if !r.child(stepAfterInsert) {
			t.Fatal("the process was not killed after its INSERT")
		}
		killed := r.child(killAt)
		r.child(0)
		r.requireExact()
		r.requireBalanced(accepted)
		if t.Failed() {
			t.Fatalf("after a kill at step %d of recovery", killAt)
		}
		if !killed {
			if killAt < 6 {
				t.Errorf("recovery had only %d steps", killAt-1)
			}
			return
		}
	}
}

// stepAfterInsert is the number of the step behind the first INSERT when a process starts with one group.
const stepAfterInsert = 5
