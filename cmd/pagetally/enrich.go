package main

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pagetally/pagetally/ingest"
	"github.com/pagetally/pagetally/ingest/geo"
)

// enrichment is what events are completed with from files.
type enrichment struct {
	places *geo.Database    // nil without --geo
	spam   *ingest.SpamList // nil without --spam-list
}

func (s *Settings) openEnrichment(log *slog.Logger, metrics prometheus.Registerer) (e enrichment, err error) {
	if s.Geo != "" {
		if e.places, err = geo.Open(geo.Options{Path: s.Geo, Log: log, Metrics: metrics}); err != nil {
			return e, fmt.Errorf("--geo: %w", err)
		}
	}
	if s.SpamList != "" {
		if e.spam, err = ingest.OpenSpamList(s.SpamList, log); err != nil {
			return e, fmt.Errorf("--spam-list: %w", err)
		}
	}
	return e, nil
}

// into puts e into a configuration.
func (e enrichment) into(c *ingest.Config) {
	c.Spam = e.spam
	if e.places != nil { // a nil database is no nil Places
		c.Places = e.places
	}
}

// oldPlaces is the age at which a geo database has become wrong about many addresses.
const oldPlaces = 400 * 24 * time.Hour

// checkGeo says what places are told by.
func checkGeo(s *Settings, now time.Time) finding {
	const check = "geo"
	if s.Geo == "" {
		return passed(check, "no --geo: country, region and city are unknown")
	}
	places, err := geo.Open(geo.Options{Path: s.Geo})
	if err != nil {
		return failed(check, "name an MMDB file of countries or cities with --geo, or none", "%v", err)
	}
	seen := fmt.Sprintf("%s, %s, of %s", s.Geo, places.Kind(), places.Built().UTC().Format(time.DateOnly))
	if now.Sub(places.Built()) > oldPlaces {
		return warned(check, "put a newer one in its place; a running server takes it over", "%s", seen)
	}
	return passed(check, "%s", seen)
}
