package aggregate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	Claims  Claims           // default: MemoryClaims over ClaimWindow and ClaimsHeld. RedisClaims have their own window and serve one Delivery

	Hot *Hot // counts of the last hour in Redis, nil: none

	Watch Watcher // told what becomes of segments, nil: nobody

	ClaimWindow time.Duration // how long an event id is remembered: 48 h by default, never under 24 h
	ClaimsHeld  int           // claims held in memory, default 500,000

	GroupRows     int           // rows taken together at most, default 100,000; the limit of one INSERT is 500,000
	GroupBytes    int64         // bytes of segments taken together at most, default 10 MiB: of a backlog; see nextGroup. An INSERT in flight needs some 10 times what it holds
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

// Watcher is told what becomes of this node's segments, by Run's goroutine: it must not block.
type Watcher interface {
	// Sending comes before any row of the segment is sent. A group that the former process left is sent without it.
	Sending(segment ulid.ULID)
	// Settled comes when the segment's rows are stored or set aside.
	Settled(segment ulid.ULID)
}

// unwatched is nobody.
type unwatched struct{}

func (unwatched) Sending(ulid.ULID) {}
func (unwatched) Settled(ulid.ULID) {}

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
	c.GroupBytes = min(defaultTo(c.GroupBytes, 10<<20), maxGroupBytes)
	c.ClaimsHeld = defaultTo(c.ClaimsHeld, 500_000)
	c.Parallel = defaultTo(c.Parallel, 2)
	c.InsertTimeout = defaultTo(c.InsertTimeout, time.Minute)
	c.MaxBackoff = defaultTo(c.MaxBackoff, 5*time.Second)
	c.ParkedRetry = defaultTo(c.ParkedRetry, 30*time.Second)
	c.KeepBytes = defaultTo(c.KeepBytes, 1<<30)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Watch == nil {
		c.Watch = unwatched{}
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
	// remoteClaims is claims, if those are in Redis, else nil.
	remoteClaims *RedisClaims

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

// New checks cfg and returns a Delivery that does nothing until Run.
func New(cfg Config) (*Delivery, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	d := &Delivery{
		cfg: cfg, conn: cfg.Conn, journal: cfg.Journal, node: cfg.Node, claims: cfg.Claims, log: cfg.Log,
		now: time.Now, step: cfg.Step,
		proved:      newCache[part](provedRemembered),
		ledger:      newLedger(cfg.Conn, cfg.Node, time.Now),
		undelivered: map[ulid.ULID]bool{}, quarantined: map[ulid.ULID]bool{}, busy: map[ulid.ULID]bool{},
		results: make(chan result, cfg.Parallel),
	}
	d.metrics = newMetrics(cfg.Metrics, d.lag)
	if d.claims == nil {
		memory := NewMemoryClaims(cfg.Conn, cfg.ClaimWindow, max(cfg.ClaimsHeld, 4*cfg.GroupRows))
		memory.pinned = d.inHand
		d.claims = memory
	}
	if remote, ok := d.claims.(*RedisClaims); ok {
		d.remoteClaims = remote
		remote.attach(claimHooks{node: d.node, pinned: d.inHand, stored: d.ledger.segmentStored, files: d.journal})
	}
	starting := "starting"
	d.state.Store(&starting)
	return d, nil
}

// inHand says that the segment is in this node's journal and not stored.
func (d *Delivery) inHand(segment ulid.ULID) bool {
	return d.undelivered[segment] || d.quarantined[segment]
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
			if d.tendClaims(ctx) {
				d.unpark()
			}
			d.kept.expire(d)
		}
	}
}

// tendClaims looks after claims that are kept elsewhere; back says that rows which waited for them can be decided now.
func (d *Delivery) tendClaims(ctx context.Context) (back bool) {
	if d.remoteClaims == nil {
		return false
	}
	waited := d.remoteClaims.waiting()
	d.remoteClaims.tend(ctx)
	return waited && !d.remoteClaims.waiting()
}

// lag is the age of the oldest acknowledged event that is not in ClickHouse yet; 0 when all are.
func (d *Delivery) lag() time.Duration {
	oldest := d.AsOf()
	if oldest.IsZero() {
		return 0
	}
	return max(0, d.now().Sub(oldest))
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

// nextGroup takes the oldest sealed segments that are not being worked on, up to the limits of a group. What a busy moment left is
// taken in halves of a group, which need half of the memory; from two groups on it is a backlog, and full ones go faster.
func (d *Delivery) nextGroup() ([]journal.Info, error) {
	waiting, backlog, err := d.waitingSegments()
	if err != nil {
		return nil, err
	}
	limit := d.cfg.GroupBytes
	if backlog < 2*limit {
		limit /= 2
	}
	rows, bytes, taken := 0, int64(0), 0
	for _, info := range waiting {
		rows, bytes = rows+info.Rows, bytes+info.Bytes
		if taken > 0 && (rows > d.cfg.GroupRows || bytes > limit) {
			break
		}
		taken++
	}
	return waiting[:taken], nil
}

// waitingSegments lists the sealed segments that are not being worked on, the oldest first, and their bytes.
func (d *Delivery) waitingSegments() (waiting []journal.Info, bytes int64, err error) {
	infos, err := d.journal.List(journal.StateSealed)
	if err != nil {
		return nil, 0, fmt.Errorf("list sealed segments: %w", err)
	}
	for _, info := range infos {
		d.undelivered[info.ID] = true
		if !d.busy[info.ID] {
			waiting, bytes = append(waiting, info), bytes+info.Bytes
		}
	}
	return waiting, bytes, nil
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
		d.cfg.Watch.Sending(info.ID)
	}
	d.inFlight++
	go func() {
		d.cfg.Hot.count(g)
		ctx, cancel := lingering(ctx, stopGrace)
		defer cancel()
		d.results <- result{g, d.firstTry(ctx, g)}
	}()
	return nil
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
		d.cfg.Watch.Settled(s.ID)
		d.waiters.done(s.ID)
	}
	d.kept.add(d, g)
}

func (d *Delivery) drainInFlight() {
	for d.inFlight > 0 {
		d.take(<-d.results)
	}
}

func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (d *Delivery) newID() ulid.ULID { return d.journal.NewID() }
