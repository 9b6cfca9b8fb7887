package aggregate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pagetally/pagetally/ingest/journal"
)

// Config says what a Delivery works with. Conn and Journal are needed; the rest has defaults.
type Config struct {
	Conn    Conn             // its default database holds the tables
	Journal *journal.Journal // Run is the only one to move its segments
	Node    string           // written into the ledger
	Claims  Claims           // default: MemoryClaims over ClaimWindow and ClaimsHeld

	ClaimWindow time.Duration // how long an event id is remembered: 48 h by default, never under 24 h
	ClaimsHeld  int           // claims held in memory, default 500,000

	GroupRows     int           // rows taken together at most, default 100,000; the limit of one INSERT is 500,000
	GroupBytes    int64         // bytes of segments taken together at most, default 8 MiB; a node needs some 10 times that for each INSERT in flight
	Parallel      int           // INSERTs in flight at most, default 2
	InsertTimeout time.Duration // for one attempt, default 60 s
	MaxBackoff    time.Duration // between attempts, default 5 s
	ParkedRetry   time.Duration // how often parked events are looked at again, default 30 s
	Keep          time.Duration // how long delivered segments are kept in case the server forgets them, default 0: not at all
	KeepBytes     int64         // bytes kept at most, default 1 GiB

	Log     *slog.Logger
	Metrics prometheus.Registerer

	// Step, if set, is called with the name of each step between two effects. Tests stop or kill the process there.
	Step func(name string)
}

// Hard limits of one INSERT: memory of both sides follows from them.
const (
	maxGroupRows  = 500_000
	maxGroupBytes = 128 << 20
	minWindow     = 24 * time.Hour
)

func (c *Config) setDefaults() error {
	if c.Conn == nil || c.Journal == nil {
		return errors.New("delivery needs a connection and a journal")
	}
	c.ClaimWindow = defaultTo(c.ClaimWindow, 48*time.Hour)
	if c.ClaimWindow < minWindow {
		return fmt.Errorf("claim window %v is under %v", c.ClaimWindow, minWindow)
	}
	c.GroupRows = min(defaultTo(c.GroupRows, 100_000), maxGroupRows)
	c.GroupBytes = min(defaultTo(c.GroupBytes, 8<<20), maxGroupBytes)
	c.ClaimsHeld = defaultTo(c.ClaimsHeld, 500_000)
	c.Parallel = defaultTo(c.Parallel, 2)
	c.InsertTimeout = defaultTo(c.InsertTimeout, time.Minute)
	c.MaxBackoff = defaultTo(c.MaxBackoff, 5*time.Second)
	c.ParkedRetry = defaultTo(c.ParkedRetry, 30*time.Second)
	c.KeepBytes = defaultTo(c.KeepBytes, 1<<30)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Step == nil {
		c.Step = func(string) {}
	}
	return nil
}

func defaultTo[T int | int64 | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// Delivery carries sealed segments into ClickHouse. Its methods may be called from any goroutine, Run once.
type Delivery struct {
	cfg     Config
	conn    Conn
	journal *journal.Journal
	node    string
	claims  Claims
	ledger  *ledger
	log     *slog.Logger
	metrics *metrics
	now     func() time.Time
	step    func(string)
	waiters waiters
	proved  *lru.Cache[part, struct{}]
	// brokenParts counts parts found broken, so that INSERTs in flight notice.
	brokenParts atomic.Uint64
	state       atomic.Pointer[string] // what delivery is waiting for, nil while it works

	// The rest belongs to Run's goroutine.
	undelivered map[ulid.ULID]bool // segments of this node that are not stored yet
	quarantined map[ulid.ULID]bool // segments in quarantine
	busy        map[ulid.ULID]bool // segments of groups in flight, uncertain or held
	inFlight    int
	results     chan result
	uncertain   []*group
	held        []*heldGroup
	letIn       bool   // one new group may be tried although many are held
	successes   uint64 // INSERTs that the server took
	kept        keptSegments
}

type result struct {
	group *group
	err   error
}

// heldGroup is a group set back. Its segments are not kept in memory: many groups may be held while a table is broken.
type heldGroup struct {
	decision *Decision
	trial    *trial
	next     time.Time
	attempt  int
}

// New checks cfg and returns a Delivery that does nothing until Run.
func New(cfg Config) (*Delivery, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	d := &Delivery{
		cfg: cfg, conn: cfg.Conn, journal: cfg.Journal, node: cfg.Node, claims: cfg.Claims, log: cfg.Log,
		metrics: newMetrics(cfg.Metrics), now: time.Now, step: cfg.Step,
		proved:      newCache[part](provedRemembered),
		ledger:      newLedger(cfg.Conn, cfg.Node, time.Now),
		undelivered: map[ulid.ULID]bool{}, quarantined: map[ulid.ULID]bool{}, busy: map[ulid.ULID]bool{},
		results: make(chan result, cfg.Parallel),
	}
	if d.claims == nil {
		memory := NewMemoryClaims(cfg.Conn, cfg.ClaimWindow, max(cfg.ClaimsHeld, 4*cfg.GroupRows))
		memory.pinned = func(segment ulid.ULID) bool { return d.undelivered[segment] || d.quarantined[segment] }
		d.claims = memory
	}
	starting := "starting"
	d.state.Store(&starting)
	return d, nil
}

// tick is how often Run looks around without being told to.
const tick = 500 * time.Millisecond

// Run delivers until ctx ends, then waits for the INSERTs in flight and returns nil. What was not delivered stays in the journal.
func (d *Delivery) Run(ctx context.Context) error {
	if err := d.untilDone(ctx, "recovering", d.recover); err != nil {
		return ignoreEnd(ctx, err)
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	lastUnpark := d.now()
	for {
		if err := d.round(ctx); err != nil {
			d.drainInFlight()
			return ignoreEnd(ctx, err)
		}
		select {
		case <-ctx.Done():
			d.drainInFlight()
			return nil
		case r := <-d.results:
			d.take(r)
		case <-d.journal.Sealed():
		case <-ticker.C:
			if d.now().Sub(lastUnpark) >= d.cfg.ParkedRetry {
				lastUnpark = d.now()
				d.unpark()
			}
			d.measureLag()
			d.kept.expire(d)
		}
	}
}

func (d *Delivery) measureLag() {
	var lag time.Duration
	if oldest := d.AsOf(); !oldest.IsZero() {
		lag = d.now().Sub(oldest)
	}
	d.metrics.lag.Set(lag.Seconds())
}

// round does what can be done now: settle what is uncertain, then send what is sealed.
func (d *Delivery) round(ctx context.Context) error {
	if len(d.uncertain) > 0 {
		return d.settleAll(ctx)
	}
	if err := d.untilDone(ctx, "obeying requests", d.obeyRequests); err != nil {
		return err
	}
	if err := d.watchServer(ctx); err != nil {
		return err
	}
	for d.mayDispatch() {
		infos, err := d.nextGroup()
		if err != nil {
			return err
		}
		if len(infos) == 0 {
			break
		}
		if err := d.dispatch(ctx, infos); err != nil {
			return err
		}
	}
	return d.retryHeld(ctx)
}

// nextGroup takes the oldest sealed segments that are not being worked on, up to the limits of a group.
func (d *Delivery) nextGroup() ([]journal.Info, error) {
	infos, err := d.journal.List(journal.StateSealed)
	if err != nil {
		return nil, fmt.Errorf("list sealed segments: %w", err)
	}
	var group []journal.Info
	rows, bytes := 0, int64(0)
	for _, info := range infos {
		d.undelivered[info.ID] = true
		if d.busy[info.ID] {
			continue
		}
		rows, bytes = rows+info.Rows, bytes+info.Bytes
		if len(group) > 0 && (rows > d.cfg.GroupRows || bytes > d.cfg.GroupBytes) {
			break
		}
		group = append(group, info)
	}
	return group, nil
}

// dispatch decides a group and starts its first try in a goroutine, which reports to d.results.
func (d *Delivery) dispatch(ctx context.Context, infos []journal.Info) error {
	var g *group
	id := d.newID()
	err := d.untilDone(ctx, "deciding", func(ctx context.Context) (err error) {
		g, err = d.decide(ctx, id, infos)
		if isCorrupt(err) {
			return d.setAsideDamaged(infos)
		}
		return err
	})
	if err != nil || g == nil {
		return err
	}
	for _, info := range infos {
		d.busy[info.ID] = true
	}
	d.inFlight++
	go func() {
		ctx, cancel := lingering(ctx, stopGrace)
		defer cancel()
		d.results <- result{g, d.firstTry(ctx, g)}
	}()
	return nil
}

// stopGrace is how long an INSERT may go on after Run was told to stop: finishing one is cheaper than settling it.
const stopGrace = 5 * time.Second

// lingering returns a context that ends some time after its parent.
func lingering(parent context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(parent))
	stop := context.AfterFunc(parent, func() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { stop(); cancel() }
}

// firstTry inserts a freshly decided group. Any error makes the group uncertain: how far it came does not matter.
func (d *Delivery) firstTry(ctx context.Context, g *group) error {
	broken := d.brokenParts.Load()
	if err := d.ledger.write(ctx, g.intent()); err != nil {
		return err
	}
	d.step("delivery: after the intent")
	for _, b := range g.Batches {
		if err := d.insert(ctx, g, b); err != nil {
			d.report(err, b)
			return err
		}
		d.step("delivery: after an insert")
	}
	if err := d.proveEvents(ctx); err != nil {
		d.degraded("proving fresh parts", err)
		return err
	}
	if d.brokenParts.Load() != broken {
		return errBrokenPart // another INSERT's proof found it, and it may be of this one
	}
	for _, b := range g.Batches {
		b.State, b.Outcome = BatchStored, outcomeCertain
	}
	return d.close(ctx, g)
}

// close records a group whose batches are all stored or set aside, and removes its files. Doing it again changes nothing.
func (d *Delivery) close(ctx context.Context, g *group) error {
	if err := d.setAside(ctx, g); err != nil {
		return err
	}
	d.step("delivery: before the stored entry")
	if err := d.ledger.write(ctx, g.closing()); err != nil {
		return err
	}
	if err := d.prove(ctx, ledgerTable); err != nil {
		return err
	}
	d.step("delivery: after the stored entry")
	return d.clean(g.Decision)
}

// clean removes or keeps a stored group's segments, and its decision last.
func (d *Delivery) clean(decision *Decision) error {
	for _, s := range decision.Segments {
		err := d.finishSegment(s.ID)
		if err != nil && !errors.Is(err, journal.ErrNotFound) {
			return fmt.Errorf("finish segment %s: %w", s.ID, err)
		}
		d.step("delivery: between files")
	}
	if d.cfg.Keep > 0 {
		if err := d.keepDecision(decision); err != nil {
			return err
		}
	}
	if err := d.journal.RemoveFile(decisionsDir, decisionName(decision.ID)); err != nil && !errors.Is(err, journal.ErrNotFound) {
		return fmt.Errorf("remove decision: %w", err)
	}
	return nil
}

func (d *Delivery) finishSegment(id ulid.ULID) error {
	if d.cfg.Keep > 0 {
		return d.journal.Move(id, journal.StateSealed, journal.StateKept)
	}
	return d.journal.Remove(journal.StateSealed, id)
}

// take books the result of a group in flight.
func (d *Delivery) take(r result) {
	d.inFlight--
	if r.err != nil {
		d.uncertain = append(d.uncertain, r.group)
		return
	}
	d.successes++
	d.closed(r.group)
}

// closed tells everyone that a group is stored.
func (d *Delivery) closed(g *group) {
	d.recovered()
	d.metrics.delivered(g.closing())
	for _, s := range g.Segments {
		delete(d.busy, s.ID)
		delete(d.undelivered, s.ID)
		d.ledger.storedSegments.Add(s.ID, struct{}{})
		d.waiters.done(s.ID)
	}
	d.kept.add(d, g)
}

func (d *Delivery) drainInFlight() {
	for d.inFlight > 0 {
		d.take(<-d.results)
	}
}

// settleAll settles the uncertain groups one after the other. INSERTs in flight are waited for first, so that nothing else inserts.
func (d *Delivery) settleAll(ctx context.Context) error {
	d.drainInFlight()
	for len(d.uncertain) > 0 {
		g := d.uncertain[0]
		t := &trial{successes: d.successes}
		switch held, err := d.settleAndClose(ctx, g, t); {
		case err != nil:
			return err
		case held:
			d.held = append(d.held, &heldGroup{decision: g.Decision, trial: t, next: d.now().Add(heldRetry)})
		}
		d.uncertain = d.uncertain[1:]
	}
	d.metrics.held.Set(float64(len(d.held)))
	return nil
}

// settleAndClose reports held when the group must wait although nothing is wrong with the server.
func (d *Delivery) settleAndClose(ctx context.Context, g *group, t *trial) (held bool, err error) {
	err = d.settle(ctx, g, t)
	if errors.Is(err, errHeld) || errors.Is(err, errCorruptGroup) {
		d.log.Error("events are held back", "group", g.ID, "rows", g.rows(), "error", err)
		return true, nil
	}
	if err != nil {
		return false, err
	}
	err = d.untilDone(ctx, "closing", func(ctx context.Context) error { return d.close(ctx, g) })
	if err != nil {
		return false, err
	}
	d.closed(g)
	return false, nil
}

const (
	heldRetry = 2 * time.Second
	// heldFew is how many groups may be held before new ones are only let in as slowly as held ones are tried again.
	heldFew = 4
)

// retryHeld settles the first held group whose time has come.
func (d *Delivery) retryHeld(ctx context.Context) error {
	for i, h := range d.held {
		if d.now().Before(h.next) {
			continue
		}
		d.drainInFlight()
		if len(d.uncertain) > 0 {
			return nil // they go first
		}
		segments, err := d.openSegments(h.decision.Segments, journal.StateSealed)
		if err != nil {
			return fmt.Errorf("open held group: %w", err)
		}
		held, err := d.settleAndClose(ctx, newGroup(h.decision, segments), h.trial)
		switch {
		case err != nil:
			return err
		case held:
			h.attempt++
			h.next = d.now().Add(min(heldRetry<<min(h.attempt, 8), time.Minute))
			d.letIn = true
			return nil
		}
		d.held = slices.Delete(d.held, i, i+1)
		d.metrics.held.Set(float64(len(d.held)))
		return nil
	}
	return nil
}

// mayDispatch slows new groups down while everything seems to be refused, without stopping them: one that is taken proves the tables.
func (d *Delivery) mayDispatch() bool {
	if d.inFlight >= d.cfg.Parallel || len(d.uncertain) > 0 {
		return false
	}
	if len(d.held) >= heldFew {
		letIn := d.letIn
		d.letIn = false
		return letIn
	}
	return true
}

// untilDone repeats what until it succeeds or ctx ends, whose error it then returns. It is for steps that may be repeated and that
// cannot be done without: the server, the disk or an operator will make them possible again.
func (d *Delivery) untilDone(ctx context.Context, what string, f func(context.Context) error) error {
	for attempt := 1; ; attempt++ {
		err := f(ctx)
		if err == nil {
			d.recovered()
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		d.degraded(what, err)
		if err := d.pause(ctx, d.backoff(attempt)); err != nil {
			return err
		}
	}
}

// report logs the failure of an INSERT, the first of a row loudly.
func (d *Delivery) report(err error, b *Batch) {
	d.degraded("inserting batch "+b.ID.String()+" ("+classify(err).String()+")", err)
}

func (d *Delivery) degraded(what string, err error) {
	d.metrics.retries.Inc()
	state := what + ": " + err.Error()
	if previous := d.state.Swap(&state); previous == nil || *previous == "starting" {
		d.log.Warn("delivery is waiting", "for", what, "error", err)
		return
	}
	d.log.Debug("delivery is still waiting", "for", what, "error", err)
}

func (d *Delivery) recovered() {
	if previous := d.state.Swap(nil); previous != nil {
		d.log.Info("delivery is working", "waited_for", *previous)
	}
}

// Ready returns nil while delivery works, else what it is waiting for.
func (d *Delivery) Ready() error {
	if state := d.state.Load(); state != nil {
		return errors.New(*state)
	}
	return nil
}

func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (d *Delivery) newID() ulid.ULID { return d.journal.NewID() }
