package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pagetally/pagetally/ingest"
)

const shopWebsite = "746f4b90-23d9-561a-8215-09fd380eccee"

// testSites adds a site to the running server p, sees its settings count for events and for readers, changes and removes it.
func testSites(t *testing.T, p *process) {
	run := func(wantCode int, args ...string) string {
		t.Helper()
		stdout, stderr, code := pagetally(t, append([]string{"sites", args[0], "--data=" + p.data}, args[1:]...)...)
		if code != wantCode {
			t.Errorf("%v: exit code %d, want %d: %s%s", args, code, wantCode, stdout, stderr)
		}
		return stdout + stderr
	}
	said := run(0, "add", "Shop.example", "--hash-routing", "--zone=Asia/Tokyo", "--ignore-paths=/admin/**", "--at=https://stats.example/")
	for _, want := range []string{"domain: 'shop.example'", "endpoint: 'https://stats.example/api/event'", "hashBasedRouting: true", "pixel.gif?site=shop.example"} {
		if !strings.Contains(said, want) {
			t.Errorf("add does not print %q:\n%s", want, said)
		}
	}
	if said := run(1, "add", "shop.example"); !strings.Contains(said, "sites set") {
		t.Errorf("add again: %s", said)
	}
	if said := run(1, "add", "a.example", "--week-start=someday"); !strings.Contains(said, "week-start") {
		t.Errorf("bad setting: %s", said)
	}
	p.awaitReason(t, "https://shop.example/admin/users", "ignored_path")

	if said := run(0, "set", "shop.example", "--no-hash-routing", "--ignore-paths=", "--ignore-hosts=shop.example", "--public", "--goals=order,/thanks*"); !strings.Contains(said, "zone=Asia/Tokyo") {
		t.Errorf("set changed what was not given: %s", said)
	}
	p.awaitReason(t, "https://shop.example/admin/users", "ignored_host")
	if stdout, stderr, _ := pagetally(t, "explain", "https://shop.example/", "--data="+p.data); !strings.Contains(stdout, "ignored_host") {
		t.Errorf("explain does not know the site's settings: %s%s", stdout, stderr)
	}

	// The server of the tests takes any site, so that a listed one is told by its settings.
	var list []ingest.KnownSite
	if err := json.Unmarshal([]byte(run(0, "list", "--json")), &list); err != nil || len(list) != 1 || list[0].Domain != "shop.example" ||
		list[0].Source != ingest.SourceTable || list[0].HashRouting || !list[0].Public || list[0].IgnorePaths != nil {
		t.Errorf("list: %+v, %v", list, err)
	}
	// The UUID as uuidgen makes it.
	if said := run(0, "list"); !strings.Contains(said, shopWebsite) || len(list) != 1 || list[0].WebsiteID != shopWebsite {
		t.Errorf("list does not tell the website id %s: %s %+v", shopWebsite, said, list)
	}
	stdout, stderr, code := pagetally(t, "query", "count", "shop.example", "--data="+p.data, "--period=day")
	if code != 0 || !strings.Contains(stdout, "Asia/Tokyo") {
		t.Errorf("query does not read in the site's zone: %s%s", stdout, stderr)
	}
	stdout, stderr, code = pagetally(t, "query", "top", "shop.example", "--data="+p.data, "--period=day", "--dimension=goal", "--metrics=visitors,conversion_rate", "--csv",
		`--filters=[["is_not","goal",["nothing"]]]`)
	if code != 0 || stdout != "" { // nobody reached one yet
		t.Errorf("query by goal: %s%s", stdout, stderr)
	}
	stdout, stderr, code = pagetally(t, "query", "realtime", "shop.example", "--data="+p.data)
	if code != 0 || !strings.Contains(stdout, "last 30 minutes") {
		t.Errorf("query realtime: %s%s", stdout, stderr)
	}
	run(0, "remove", "shop.example")
	if said := run(1, "set", "shop.example", "--public"); !strings.Contains(said, "no such site") {
		t.Errorf("set of a removed site: %s", said)
	}
	if said := run(1, "remove", "shop.example", "--sites=[{domain: shop.example}]"); !strings.Contains(said, "configuration") {
		t.Errorf("change of a configured site: %s", said)
	}
	p.awaitReason(t, "https://shop.example/admin/users", "")
}

// awaitReason sends a view until it is dropped for the reason, or counts when the reason is empty.
func (p *process) awaitReason(t *testing.T, url, want string) {
	t.Helper()
	site, _, _ := strings.Cut(strings.TrimPrefix(url, "https://"), "/")
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
		got := p.reasonFor(t, `{"name":"pageview","domain":"`+site+`","url":"`+url+`"}`)
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: reason %q, want %q", url, got, want)
		}
	}
}

// reasonFor sends an event and returns why it does not count.
func (p *process) reasonFor(t *testing.T, body string) string {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, p.url+"/api/event", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusAccepted {
		t.Fatalf("status %d", response.StatusCode)
	}
	return response.Header.Get(ingest.HeaderReason)
}
