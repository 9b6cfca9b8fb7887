//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/pagetally/pagetally/ingest"
)

// TestSiteSettings: pagetally takes the sites of the benchmark, and the default rates of the one that is loaded, which would refuse most of the load, are off.
func TestSiteSettings(t *testing.T) {
	var list []ingest.SiteSettings
	if err := yaml.UnmarshalWithOptions([]byte(siteSettings), &list, yaml.Strict()); err != nil || len(list) != 1+probers {
		t.Fatalf("%d sites, error %v", len(list), err)
	}
	got, err := list[0].Site(time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	const fastest = 300_000 // requests a second that this client could send
	if got.Domain != site || got.Limits.PerAddress < fastest || got.Limits.PerSite < fastest {
		t.Errorf("site is %s with limits %+v", got.Domain, got.Limits)
	}
}
