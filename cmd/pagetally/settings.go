package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/alecthomas/kong"
	"github.com/docker/go-units"

	"github.com/pagetally/pagetally/aggregate"
	"github.com/pagetally/pagetally/ingest"
	"github.com/pagetally/pagetally/schema"
)

// Settings is everything that can be configured. Each field is a flag, an environment variable PAGETALLY_NAME and a YAML
// key of the flag's name; a flag beats the environment, which beats the file.
type Settings struct {
	Config kong.ConfigFlag `help:"YAML file with any of the settings below, under their flag names." placeholder:"FILE" yaml:"-"`

	Listen      string        `help:"Address for HTTP, HOST:PORT. Port 0 takes a free one." default:"127.0.0.1:8080"`
	Data        string        `help:"Folder for the journal, the salts and the embedded engine. One process a folder." default:"./pagetally-data" placeholder:"DIR"`
	ClickHouse  string        `name:"clickhouse" help:"'embedded', or the URL of a server: clickhouse://USER:PASSWORD@HOST:9000/DATABASE (https:// and http:// for its HTTP port)." default:"embedded" placeholder:"URL"`
	Redis       string        `help:"Where the counts of the last hour are kept: 'embedded' in this process, 'off', or the URL of a server: redis://USER:PASSWORD@HOST:6379/0 (rediss:// for TLS; ?master_name= for sentinels, ?addr= for a cluster's further nodes)." default:"embedded" placeholder:"URL"`
	Claims      string        `help:"With a Redis server, which tells several nodes who owns an event id: what becomes of events with an id while it is away. lookup: they count, by what ClickHouse and this node know; wait: they wait for it." enum:"lookup,wait" default:"lookup"`
	ClaimWindow time.Duration `help:"How long an event id is remembered: what comes again within counts once. 24h at least." default:"48h"`

	Site  []string `help:"Domains that may be counted, separated by commas, beside those of --sites and 'sites add'. '*' takes any, on loopback only, and is the default there unless --sites is given." placeholder:"DOMAIN"`
	Sites siteList `help:"Sites with settings of their own, as a list in YAML." placeholder:"YAML"`
	Zone  string   `help:"Time zone in which the sites' days begin (IANA name)." default:"UTC"`

	TrustedProxy []string `help:"Addresses or networks (10.0.0.0/8) of proxies in front, separated by commas. What they say of the client's address is believed, nobody else's. With a proxy named, callers on this machine need a key as well." placeholder:"NETWORK"`
	ClientHeader string   `help:"The header in which the trusted proxies name the client, if not X-Forwarded-For." placeholder:"NAME"`

	KeyRate float64 `help:"Questions a second that an API key may ask; twenty times as many may come at once." default:"20"`

	Geo      string `help:"MMDB file that tells countries, or cities, by address (MaxMind, DB-IP, ip-location-db, ipinfo). Taken over again when it changes. Without one country, region and city are unknown." placeholder:"FILE"`
	SpamList string `help:"File of hosts, one a line, whose referrers are spam, besides the built-in list. Taken over again when it changes." placeholder:"FILE"`

	EngineLib    string   `help:"Path of the embedded engine's library. Empty: beside the binary, then deployments/embedded/node_modules." placeholder:"FILE"`
	EngineMemory ByteSize `help:"Memory that the embedded engine may use." default:"2GiB" placeholder:"SIZE"`

	JournalMax  ByteSize      `help:"Disk that the journal may use; at the limit events are answered 503." default:"10GiB" placeholder:"SIZE"`
	JournalSeal time.Duration `help:"Age at which a journal segment is handed to delivery." default:"1s"`
	StopTimeout time.Duration `help:"Time that an orderly stop takes at most to answer open requests and deliver what is journaled. The rest is kept for the next start." default:"10s"`

	Log      string `help:"Form of the log on standard error: ${enum}." enum:"text,json" default:"text"`
	LogLevel string `help:"Least level that is logged: ${enum}." enum:"debug,info,warn,error" default:"info"`
	Pprof    bool   `help:"Serve /debug/pprof/. It tells much about the process: only for a listener that is not public."`
}

// embeddedEngine is the value of Settings.ClickHouse that asks for the engine in a child process.
const embeddedEngine = "embedded"

// anySite is the site list that takes every domain.
const anySite = "*"

// databaseName is where the tables live when the ClickHouse URL names no database, and always in the embedded engine.
const databaseName = "pagetally"

// Validate completes the defaults that depend on other settings and reports the first setting that cannot work.
// kong calls it on the parsed settings; errors name the flag.
func (s *Settings) Validate() error {
	host, _, err := net.SplitHostPort(s.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if err := s.validateSites(isLoopback(host)); err != nil {
		return fmt.Errorf("--site: %w", err)
	}
	if _, err := s.sites(); err != nil {
		return fmt.Errorf("--sites: %w", err)
	}
	if _, err := s.proxies(); err != nil {
		return fmt.Errorf("--trusted-proxy: %w", err)
	}
	if s.Data == "" {
		return errors.New("--data: is empty")
	}
	if _, err := time.LoadLocation(s.Zone); err != nil || s.Zone == "" || s.Zone == "Local" {
		return fmt.Errorf("--zone: %q is no IANA time zone such as Europe/Berlin", s.Zone)
	}
	if err := validateClickHouse(s.ClickHouse); err != nil {
		return fmt.Errorf("--clickhouse: %w", err)
	}
	if s.redisServer() {
		if _, err := parseRedis(s.Redis); err != nil {
			return fmt.Errorf("--redis: %w", err)
		}
	}
	if s.Claims == string(aggregate.ClaimsWait) && !s.redisServer() {
		return errors.New("--claims: wait needs --redis with the URL of a server")
	}
	return s.validateLimits()
}

// redisServer says that --redis names a server, which other nodes may use as well.
func (s *Settings) redisServer() bool { return s.Redis != embeddedRedis && s.Redis != noRedis }

func (s *Settings) validateSites(loopback bool) error {
	if len(s.Site) == 0 && len(s.Sites) == 0 && loopback {
		s.Site = []string{anySite}
	}
	for _, site := range s.Site {
		switch {
		case site == anySite && !loopback:
			return errors.New("'*' counts anybody's pages and is allowed on a loopback listener only")
		case site == anySite && len(s.Site) > 1:
			return errors.New("'*' stands alone")
		case strings.Contains(site, "://"):
			return fmt.Errorf("%q is no domain: write example.com", site)
		}
	}
	named := *s
	named.Sites = nil
	_, err := named.sites()
	return err
}

func validateClickHouse(value string) error {
	if value == embeddedEngine {
		return nil
	}
	u, err := url.Parse(value)
	if err != nil {
		return errors.New("is no URL") // the parser's own text would print the password
	}
	switch u.Scheme {
	case "clickhouse", "tcp", "http", "https":
	default:
		return errors.New("want 'embedded' or a URL that begins with clickhouse://, http:// or https://")
	}
	if u.Host == "" {
		return errors.New("the URL names no host")
	}
	return nil
}

func (s *Settings) validateLimits() error {
	const least = 64 << 20 // several segments: delivery frees the disk by whole ones
	switch {
	case s.JournalMax < least:
		return fmt.Errorf("--journal-max: %s is too little, want %s or more", s.JournalMax, ByteSize(least))
	case s.JournalSeal < 10*time.Millisecond || s.JournalSeal > time.Minute:
		return fmt.Errorf("--journal-seal: %s is not within 10ms and 1m", s.JournalSeal)
	case s.ClaimWindow < schema.MinClaimWindow || s.ClaimWindow > mostClaimWindow:
		return fmt.Errorf("--claim-window: %s is not within %s and %s", s.ClaimWindow, schema.MinClaimWindow, mostClaimWindow)
	case !(s.KeyRate > 0 && s.KeyRate <= 10_000): // so that NaN is refused as well
		return fmt.Errorf("--key-rate: %v is not within 0 and 10000", s.KeyRate)
	case s.StopTimeout <= 0:
		return fmt.Errorf("--stop-timeout: %s is not positive", s.StopTimeout)
	case s.EngineMemory < 512<<20:
		return fmt.Errorf("--engine-memory: %s is too little for the engine, which needs 512MiB", s.EngineMemory)
	}
	return nil
}

// mostClaimWindow bounds what Redis and the table of ids have to hold.
const mostClaimWindow = 31 * 24 * time.Hour

// embedded says whether the engine runs as a child of this process.
func (s *Settings) embedded() bool { return s.ClickHouse == embeddedEngine }

// onLoopback says whether only this machine can reach the listener.
func (s *Settings) onLoopback() bool {
	host, _, err := net.SplitHostPort(s.Listen)
	return err == nil && isLoopback(host)
}

// trustsLoopback says whether callers on this machine need no key. Not behind a proxy on this machine: all its callers seem to be here.
func (s *Settings) trustsLoopback() bool { return s.onLoopback() && len(s.TrustedProxy) == 0 }

// location is the zone of the sites; Validate has shown that it exists.
func (s *Settings) location() *time.Location {
	zone, err := time.LoadLocation(s.Zone)
	if err != nil {
		return time.UTC
	}
	return zone
}

// proxies are the peers that may name the client.
func (s *Settings) proxies() (*ingest.Proxies, error) {
	return ingest.NewProxies(s.TrustedProxy, s.ClientHeader)
}

// path names a file or folder in the data folder.
func (s *Settings) path(elem ...string) string {
	return filepath.Join(append([]string{s.Data}, elem...)...)
}

// masked returns a copy that may be printed.
func (s *Settings) masked() Settings {
	c := *s
	c.ClickHouse, c.Redis = maskPassword(s.ClickHouse), maskPassword(s.Redis)
	return c
}

// maskPassword hides the password of a URL, in the authority and in the query.
func maskPassword(value string) string {
	u, err := url.Parse(value)
	if err != nil {
		return "***"
	}
	query := u.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "password") {
			query.Set(name, "xxxxx")
		}
	}
	if u.RawQuery != "" {
		u.RawQuery = query.Encode()
	}
	return u.Redacted()
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ByteSize is a number of bytes that is read and printed with a unit: 512MiB, 10GiB.
type ByteSize int64

// UnmarshalText reads a whole or broken number with an optional unit; units are powers of 1024.
func (b *ByteSize) UnmarshalText(text []byte) error {
	n, err := units.RAMInBytes(string(text))
	if err != nil {
		return fmt.Errorf("%q is no size such as 512MiB", text)
	}
	*b = ByteSize(n)
	return nil
}

// MarshalText is what UnmarshalText reads.
func (b ByteSize) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

func (b ByteSize) String() string { return strings.ReplaceAll(units.BytesSize(float64(b)), " ", "") }
