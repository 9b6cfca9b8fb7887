package geo

import (
	"fmt"
	"net/netip"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/oschwald/maxminddb-golang/v2"
)

// cachedRecords bounds the decoded records that are remembered. A country database has some 250 of them, one of cities more
// than fit; few of those are many of a site's visitors.
const cachedRecords = 8192

// edition is a file as it was read at one time.
type edition struct {
	file   stamp
	reader *maxminddb.Reader
	layout layout
	places *lru.Cache[uintptr, Place] // by offset in the file
}

func readEdition(path string) (*edition, error) {
	content, file, err := readFile(path)
	if err != nil {
		return nil, fmt.Errorf("geo database: %w", err)
	}
	e, err := newEdition(content)
	if err != nil {
		return nil, fmt.Errorf("geo database %s: %w", path, err)
	}
	e.file = file
	return e, nil
}

func newEdition(content []byte) (*edition, error) {
	reader, err := maxminddb.OpenBytes(content)
	if err != nil {
		return nil, fmt.Errorf("%w (%v)", ErrNotDatabase, err)
	}
	layout, ok := findLayout(reader)
	if !ok {
		return nil, ErrNotDatabase
	}
	places, err := lru.New[uintptr, Place](cachedRecords)
	if err != nil {
		panic(err) // the size is a positive constant
	}
	return &edition{reader: reader, layout: layout, places: places}, nil
}

// lookup allocates for records seen for the first time only: the cache holds what was decoded, by where it lies in the file.
func (e *edition) lookup(addr netip.Addr) Place {
	if e.reader.Metadata.IPVersion == 4 && !addr.Is4() {
		return Place{} // a file of IPv4 alone
	}
	record := e.reader.Lookup(addr)
	if !record.Found() {
		return Place{}
	}
	if place, ok := e.places.Get(record.Offset()); ok {
		return place
	}
	place := e.layout.read(record)
	e.places.Add(record.Offset(), place)
	return place
}
