package geo

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type entries map[string]mmdbtype.DataType

func text(s string) mmdbtype.String { return mmdbtype.String(s) }

// write makes a database file of networks.
func write(t testing.TB, path string, ipVersion int, networks entries) {
	t.Helper()
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "Test", IPVersion: ipVersion, IncludeReservedNetworks: true, DisableIPv4Aliasing: true})
	if err != nil {
		t.Fatal(err)
	}
	prefixes := make([]netip.Prefix, 0, len(networks))
	for network := range networks {
		prefixes = append(prefixes, netip.MustParsePrefix(network))
	}
	slices.SortFunc(prefixes, func(a, b netip.Prefix) int { return a.Bits() - b.Bits() }) // a later network is cut out of earlier ones
	for _, prefix := range prefixes {
		_, network, err := net.ParseCIDR(prefix.String())
		if err != nil {
			t.Fatal(err)
		}
		if err := tree.Insert(network, networks[prefix.String()]); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tree.WriteTo(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, networks entries) *Database {
	t.Helper()
	path := filepath.Join(t.TempDir(), "geo.mmdb")
	write(t, path, 6, networks)
	d, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func maxMind(country, code, region, city string) mmdbtype.Map {
	record := mmdbtype.Map{"country": mmdbtype.Map{"iso_code": text(country), "names": mmdbtype.Map{"en": text("Name")}}}
	if region != "" {
		subdivision := mmdbtype.Map{"names": mmdbtype.Map{"de": text("Bayern"), "en": text(region)}}
		if code != "" {
			subdivision["iso_code"] = text(code)
		}
		record["subdivisions"] = mmdbtype.Slice{subdivision}
	}
	if city != "" {
		record["city"] = mmdbtype.Map{"names": mmdbtype.Map{"de": text("München"), "en": text(city)}}
	}
	return record
}

func TestLayouts(t *testing.T) {
	const network = "81.2.69.0/24"
	tests := []struct {
		name   string
		record mmdbtype.DataType
		want   Place
	}{
		{"MaxMind country", maxMind("DE", "", "", ""), Place{Country: "DE"}},
		{"MaxMind city", maxMind("DE", "BY", "Bavaria", "Munich"), Place{"DE", "DE-BY", "Munich"}},
		{"DB-IP city, regions without codes", maxMind("DE", "", "Bavaria", "Munich"), Place{"DE", "Bavaria", "Munich"}},
		{"ip-location-db country", mmdbtype.Map{"country_code": text("DE")}, Place{Country: "DE"}},
		{"ip-location-db city", mmdbtype.Map{"country_code": text("DE"), "state1": text("Bavaria"), "city": text("Munich")}, Place{"DE", "Bavaria", "Munich"}},
		{"ipinfo lite", mmdbtype.Map{"country": text("Germany"), "country_code": text("DE"), "asn": text("AS1")}, Place{Country: "DE"}},
		{"ipinfo", mmdbtype.Map{"country": text("DE"), "region": text("Bavaria"), "city": text("Munich")}, Place{"DE", "Bavaria", "Munich"}},
		{"lower case", mmdbtype.Map{"country_code": text("de")}, Place{Country: "DE"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := open(t, entries{network: tt.record})
			for range 2 { // the second time from the cache
				if diff := cmp.Diff(tt.want, d.Lookup(netip.MustParseAddr("81.2.69.142"))); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestUnknownPlaces(t *testing.T) {
	record := mmdbtype.Map{"country_code": text("DE")}
	d := open(t, entries{
		"0.0.0.0/0": record, "2000::/3": record, "fc00::/7": record,
		"198.51.100.0/24": mmdbtype.Map{"country_code": text("ZZ")}, "198.51.101.0/24": mmdbtype.Map{"country_code": text("-")},
		"198.51.102.0/24": mmdbtype.Map{"country_code": mmdbtype.Uint32(49)}, "198.51.103.0/24": mmdbtype.Map{"country_code": text("DE"), "city": text("a\x00\xff")},
	})
	for addr, want := range map[string]string{
		"81.2.69.142": "DE", "::ffff:81.2.69.142": "DE", "2001:db8::1": "DE",
		"10.0.0.1": "", "192.168.1.1": "", "172.16.0.1": "", "127.0.0.1": "", "::ffff:127.0.0.1": "", "169.254.1.1": "", "100.64.0.1": "", "0.0.0.0": "",
		"224.0.0.1": "", "255.255.255.255": "", "::1": "", "fe80::1": "", "fd00::1": "", "4000::1": "", "198.51.100.1": "", "198.51.101.1": "", "198.51.102.1": "",
	} {
		if got := d.Lookup(netip.MustParseAddr(addr)); got != (Place{Country: want}) {
			t.Errorf("%s is in %+v, want country %q", addr, got, want)
		}
	}
	if got := d.Lookup(netip.Addr{}); got != (Place{}) {
		t.Errorf("no address is in %+v", got)
	}
	if got := d.Lookup(netip.MustParseAddr("198.51.103.1")); got != (Place{Country: "DE"}) {
		t.Errorf("a name that is no text is %+v", got)
	}
}

func TestIPv4Alone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "geo.mmdb")
	write(t, path, 4, entries{"81.2.69.0/24": mmdbtype.Map{"country_code": text("GB")}})
	d, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if v4, v6 := d.Lookup(netip.MustParseAddr("81.2.69.1")), d.Lookup(netip.MustParseAddr("2001:db8::1")); v4.Country != "GB" || v6 != (Place{}) {
		t.Errorf("81.2.69.1 is in %+v, 2001:db8::1 in %+v", v4, v6)
	}
}

func TestRefused(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	asn := filepath.Join(dir, "asn.mmdb")
	write(t, asn, 6, entries{"81.2.69.0/24": mmdbtype.Map{"autonomous_system_number": mmdbtype.Uint32(1)}})
	for _, path := range []string{file("empty", ""), file("text", strings.Repeat("not a database\n", 100)), asn, dir} {
		if _, err := Open(Options{Path: path}); !errors.Is(err, ErrNotDatabase) {
			t.Errorf("%s: %v, want ErrNotDatabase", filepath.Base(path), err)
		}
	}
	if _, err := Open(Options{Path: filepath.Join(dir, "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}

// TestReplacedWhileRunning replaces the file in the ways in which people do, a broken one in between.
func TestReplacedWhileRunning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "geo.mmdb")
	country := func(code string) entries { return entries{"81.2.69.0/24": mmdbtype.Map{"country_code": text(code)}} }
	write(t, path, 6, country("DE"))
	synctest.Test(t, func(t *testing.T) {
		d, err := Open(Options{Path: path, Every: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()
		expect := func(what, want string, failures float64) {
			t.Helper()
			time.Sleep(61 * time.Second)
			synctest.Wait()
			if got := d.Lookup(netip.MustParseAddr("81.2.69.1")).Country; got != want {
				t.Errorf("%s: in %q, want %q", what, got, want)
			}
			var m dto.Metric
			if err := d.failures.Write(&m); err != nil || m.GetCounter().GetValue() != failures {
				t.Errorf("%s: %v failures, want %v (%v)", what, m.GetCounter().GetValue(), failures, err)
			}
		}
		write(t, path+".new", 6, country("FR"))
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		expect("renamed over", "FR", 0)
		if err := os.WriteFile(path, []byte("half a"), 0o600); err != nil {
			t.Fatal(err)
		}
		expect("broken", "FR", 1)
		write(t, path, 6, country("GB")) // in place
		if err := os.Chtimes(path, time.Time{}, time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		expect("written over, with an older time", "GB", 1)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		expect("removed", "GB", 2)
		write(t, path, 6, country("ES"))
		expect("back", "ES", 2)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func FuzzDatabase(f *testing.F) {
	path := filepath.Join(f.TempDir(), "geo.mmdb")
	write(f, path, 6, entries{"81.2.69.0/24": maxMind("DE", "BY", "Bavaria", "Munich")})
	content, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Fuzz(func(t *testing.T, content []byte) {
		e, err := newEdition(content)
		if err != nil {
			return
		}
		for _, addr := range []string{"81.2.69.1", "2001:db8::1"} {
			if p := e.lookup(netip.MustParseAddr(addr)); p != (Place{}) && countryCode(p.Country) == "" {
				t.Errorf("%s is in %+v", addr, p)
			}
		}
	})
}

func BenchmarkLookup(b *testing.B) {
	d := open(b, entries{"81.2.69.0/24": maxMind("DE", "BY", "Bavaria", "Munich")})
	addr := netip.MustParseAddr("81.2.69.1")
	b.ReportAllocs()
	for b.Loop() {
		if d.Lookup(addr).Country != "DE" {
			b.Fatal("unknown")
		}
	}
}
