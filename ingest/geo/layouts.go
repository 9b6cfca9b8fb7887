package geo

import (
	"strings"
	"unicode/utf8"

	"github.com/oschwald/maxminddb-golang/v2"
)

// path leads to a value in a record: keys of maps and indices of arrays.
type path []any

// layout is where a database keeps what a Place holds. The first path that leads to a text counts.
type layout struct {
	country    path
	regionCode []path // ISO 3166-2 without the country
	region     []path // names
	city       []path
}

// layouts are those of the files in use, told apart by where the country is.
var layouts = []layout{
	{ // MaxMind GeoLite2 and GeoIP2, DB-IP
		country:    path{"country", "iso_code"},
		regionCode: []path{{"subdivisions", 0, "iso_code"}},
		region:     []path{{"subdivisions", 0, "names", "en"}},
		city:       []path{{"city", "names", "en"}},
	},
	{ // ip-location-db, ipinfo's lite files
		country: path{"country_code"},
		region:  []path{{"state1"}, {"region"}},
		city:    []path{{"city"}},
	},
	{ // ipinfo
		country: path{"country"},
		region:  []path{{"region"}},
		city:    []path{{"city"}},
	},
}

// Networks without and records with data that are looked at to find a file's layout. Some records have no country, and a
// damaged file may lead round in circles of empty ones.
const (
	probedNetworks = 100_000
	probedRecords  = 1000
)

// findLayout finds the layout under which a record of the file tells a country.
func findLayout(reader *maxminddb.Reader) (layout, bool) {
	networks, records := 0, 0
	for record := range reader.Networks(maxminddb.IncludeNetworksWithoutData()) {
		if networks++; networks > probedNetworks || records > probedRecords {
			break
		}
		if !record.Found() {
			continue
		}
		records++
		for _, l := range layouts {
			if l.read(record).Country != "" {
				return l, true
			}
		}
	}
	return layout{}, false
}

func (l layout) read(record maxminddb.Result) Place {
	p := Place{Country: countryCode(textAt(record, l.country))}
	if p.Country == "" {
		return Place{}
	}
	p.City = firstText(record, l.city)
	if code := firstText(record, l.regionCode); code != "" {
		p.Region = p.Country + "-" + code
	} else {
		p.Region = firstText(record, l.region)
	}
	return p
}

func firstText(record maxminddb.Result, paths []path) string {
	for _, p := range paths {
		if s := textAt(record, p); s != "" {
			return s
		}
	}
	return ""
}

const maxNameBytes = 200 // of a region or city

// textAt is the text at p, empty when there is none.
func textAt(record maxminddb.Result, p path) string {
	var s string
	if err := record.DecodePath(&s, p...); err != nil {
		return "" // something else than text: of another layout
	}
	if s = strings.TrimSpace(s); len(s) > maxNameBytes || !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		return ""
	}
	return s
}

// countryCode is s when it is a code of ISO 3166-1; some files have "-", "ZZ" or "None" for unknown.
func countryCode(s string) string {
	if len(s) != 2 {
		return ""
	}
	s = strings.ToUpper(s)
	if s[0] < 'A' || s[0] > 'Z' || s[1] < 'A' || s[1] > 'Z' || s == "ZZ" {
		return ""
	}
	return s
}
