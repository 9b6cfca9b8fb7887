package geo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Place is where an address is. What the database does not tell is empty.
type Place struct {
	Country string // ISO 3166-1 alpha-2: "DE"
	Region  string // ISO 3166-2 ("DE-BY") where the database has codes, else the English name
	City    string // English name
}

// MaxFileBytes bounds a database file, which is held in memory.
const MaxFileBytes = 1 << 30

// ErrNotDatabase says that a file is no MMDB database that tells countries.
var ErrNotDatabase = errors.New("is no MMDB database of countries")

// Options are what a Database needs. Path is required.
type Options struct {
	Path    string
	Every   time.Duration // between looks at the file; a minute when zero
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Database answers where addresses are. It is safe for concurrent use.
type Database struct {
	path    string
	every   time.Duration
	log     *slog.Logger
	current atomic.Pointer[edition]
	broken  bool // the last look failed; owned by Run

	failures prometheus.Counter
}

// Open reads the database. The error wraps ErrNotDatabase when the file is something else.
func Open(o Options) (*Database, error) {
	d := &Database{path: o.Path, every: o.Every, log: o.Log}
	if d.every <= 0 {
		d.every = time.Minute
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	first, err := readEdition(o.Path)
	if err != nil {
		return nil, err
	}
	d.current.Store(first)
	return d, d.register(o.Metrics)
}

func (d *Database) register(reg prometheus.Registerer) error {
	d.failures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "pagetally_geo_reload_failures_total", Help: "Looks at a changed geo database that could not be read; the old one stayed in use.",
	})
	if reg == nil {
		return nil
	}
	built := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "pagetally_geo_database_build_timestamp_seconds", Help: "When the geo database in use was built.",
	}, func() float64 { return float64(d.Built().Unix()) })
	return errors.Join(reg.Register(d.failures), reg.Register(built))
}

// Lookup tells where addr is: the zero Place when that is unknown, as it is of private and reserved addresses.
func (d *Database) Lookup(addr netip.Addr) Place {
	if !isPublic(addr) {
		return Place{}
	}
	return d.current.Load().lookup(addr.Unmap())
}

// Built is when the database in use was built.
func (d *Database) Built() time.Time { return d.current.Load().reader.Metadata.BuildTime() }

// Kind is what the database calls itself, such as "GeoLite2-City".
func (d *Database) Kind() string { return d.current.Load().reader.Metadata.DatabaseType }

// Run takes over new editions of the file until ctx ends.
func (d *Database) Run(ctx context.Context) error {
	ticker := time.NewTicker(d.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			d.refresh()
		}
	}
}

// refresh reads the file again if it is another than the one in use.
func (d *Database) refresh() {
	old := d.current.Load()
	info, err := os.Stat(d.path)
	if err == nil && old.file.same(stampOf(info)) {
		d.broken = false
		return
	}
	var next *edition
	if err == nil {
		next, err = readEdition(d.path)
	}
	if err != nil {
		d.failures.Inc()
		if !d.broken {
			d.log.Warn("cannot read the geo database, the old one stays in use", "file", d.path, "error", err)
		}
		d.broken = true
		return
	}
	d.broken = false
	d.current.Store(next)
	d.log.Info("geo database replaced", "file", d.path, "built", d.Built().UTC().Format(time.DateOnly))
}

// stamp tells editions of a file apart.
type stamp struct {
	size     int64
	modified time.Time
	info     fs.FileInfo
}

func stampOf(info fs.FileInfo) stamp { return stamp{info.Size(), info.ModTime(), info} }

func (s stamp) same(other stamp) bool {
	return s.size == other.size && s.modified.Equal(other.modified) && os.SameFile(s.info, other.info)
}

var errChanging = errors.New("changed while it was read")

// readFile reads the whole file and refuses one that somebody is writing.
func readFile(path string) ([]byte, stamp, error) {
	before, err := os.Stat(path)
	if err != nil {
		return nil, stamp{}, err
	}
	if !before.Mode().IsRegular() || before.Size() > MaxFileBytes {
		return nil, stamp{}, fmt.Errorf("%s: %w", path, ErrNotDatabase)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, stamp{}, err
	}
	after, err := os.Stat(path)
	if err != nil {
		return nil, stamp{}, err
	}
	file := stampOf(before)
	if !file.same(stampOf(after)) || int64(len(content)) != file.size {
		return nil, stamp{}, fmt.Errorf("%s: %w", path, errChanging)
	}
	return content, file, nil
}

var sharedSpace = netip.MustParsePrefix("100.64.0.0/10") // RFC 6598: carriers' own

// isPublic leaves out what no database can know, so that a wrong entry for it does no harm.
func isPublic(addr netip.Addr) bool {
	addr = addr.Unmap()
	return addr.IsGlobalUnicast() && !addr.IsPrivate() && !sharedSpace.Contains(addr)
}
