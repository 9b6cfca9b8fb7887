package ingest

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// arrived is what an event says about where its visitor came from.
type arrived struct{ Source, Medium, Channel string }

func TestSourceAndChannel(t *testing.T) {
	tests := []struct {
		query, referrer string
		want            arrived
	}{
		{"", "", arrived{"", "", "Direct"}},
		{"", "https://example.com/other", arrived{"", "", "Direct"}},
		{"", "https://ref.example/", arrived{"ref.example", "", "Referral"}},
		// referrers by host: countries, subdomains, ports, longest match
		{"", "https://www.google.com/", arrived{"Google", "", "Organic Search"}},
		{"", "https://www.google.co.uk/", arrived{"Google", "", "Organic Search"}},
		{"", "https://google.com.br/url?q=x", arrived{"Google", "", "Organic Search"}},
		{"", "https://google.evil.example/", arrived{"google.evil.example", "", "Referral"}},
		{"", "https://notgoogle.com/", arrived{"notgoogle.com", "", "Referral"}},
		{"", "https://google/", arrived{"google", "", "Referral"}},
		{"", "https://mail.google.com/", arrived{"Gmail", "", "Email"}},
		{"", "https://news.google.com/", arrived{"Google News", "", "Referral"}},
		{"", "https://gemini.google.com/app", arrived{"Gemini", "", "AI Assistant"}},
		{"", "https://shopping.google.com/", arrived{"Google Shopping", "", "Organic Shopping"}},
		{"", "https://www.bing.com:443/search", arrived{"Bing", "", "Organic Search"}},
		{"", "https://duckduckgo.com/", arrived{"DuckDuckGo", "", "Organic Search"}},
		{"", "https://yandex.ru/", arrived{"Yandex", "", "Organic Search"}},
		{"", "https://search.brave.com/", arrived{"Brave Search", "", "Organic Search"}},
		{"", "https://L.Facebook.com/l.php?u=x", arrived{"Facebook", "", "Organic Social"}},
		{"", "https://lm.facebook.com/", arrived{"Facebook", "", "Organic Social"}},
		{"", "https://t.co/abc", arrived{"X", "", "Organic Social"}},
		{"", "https://out.reddit.com/", arrived{"Reddit", "", "Organic Social"}},
		{"", "https://news.ycombinator.com/item?id=1", arrived{"Hacker News", "", "Organic Social"}},
		{"", "https://lnkd.in/x", arrived{"LinkedIn", "", "Organic Social"}},
		{"", "https://m.youtube.com/watch", arrived{"YouTube", "", "Organic Video"}},
		{"", "https://www.amazon.de/dp/1", arrived{"Amazon", "", "Organic Shopping"}},
		{"", "https://chatgpt.com/", arrived{"ChatGPT", "", "AI Assistant"}},
		{"", "https://www.perplexity.ai/search", arrived{"Perplexity", "", "AI Assistant"}},
		{"", "https://github.com/a/b", arrived{"GitHub", "", "Referral"}},
		{"", "https://[2001:db8::1]/", arrived{"2001:db8::1", "", "Referral"}},
		// apps
		{"", "android-app://com.example.reader/", arrived{"com.example.reader", "", "Referral"}},
		{"", "android-app://com.google.android.googlequicksearchbox/https/www.google.com", arrived{"Google", "", "Organic Search"}},
		{"", "android-app://com.Slack/", arrived{"Slack", "", "Organic Social"}},
		{"", "android-app://com.google.android.gm", arrived{"Gmail", "", "Email"}},
		// campaigns: as sent, save for short forms and hosts
		{"utm_source=news&utm_medium=email&utm_campaign=may", "", arrived{"news", "email", "Email"}},
		{"utm_source=Foo&utm_medium=cpc", "", arrived{"Foo", "cpc", "Paid Other"}},
		{"utm_source=Google&utm_medium=CPC", "", arrived{"Google", "CPC", "Paid Search"}},
		{"utm_source=google&utm_medium=organic", "https://ref.example/", arrived{"google", "organic", "Organic Search"}},
		{"utm_source=fb&utm_medium=paid-social", "", arrived{"Facebook", "paid-social", "Paid Social"}},
		{"utm_source=facebook", "", arrived{"facebook", "", "Organic Social"}},
		{"utm_source=chatgpt.com", "", arrived{"ChatGPT", "", "AI Assistant"}},
		{"ref=producthunt", "", arrived{"producthunt", "", "Organic Social"}},
		{"ref=partner", "", arrived{"partner", "", "Referral"}},
		{"utm_source=newsletter", "", arrived{"newsletter", "", "Email"}},
		{"utm_source=youtube&utm_medium=ppc", "", arrived{"youtube", "ppc", "Paid Video"}},
		{"utm_source=ebay&utm_medium=cpc", "", arrived{"ebay", "cpc", "Paid Shopping"}},
		{"utm_source=google&utm_medium=cpc&utm_campaign=Winter-Shop", "", arrived{"google", "cpc", "Paid Shopping"}},
		{"utm_source=google&utm_medium=cpc&utm_campaign=workshop", "", arrived{"google", "cpc", "Paid Search"}},
		{"utm_source=google&utm_medium=cpc&utm_campaign=Cross-network-1", "", arrived{"google", "cpc", "Cross-network"}},
		{"utm_source=site&utm_medium=banner", "", arrived{"site", "banner", "Display"}},
		{"utm_source=site&utm_medium=cpm", "", arrived{"site", "cpm", "Display"}},
		{"utm_source=p&utm_medium=affiliate", "", arrived{"p", "affiliate", "Affiliates"}},
		{"utm_source=p&utm_medium=audio", "", arrived{"p", "audio", "Audio"}},
		{"utm_source=p&utm_medium=sms", "", arrived{"p", "sms", "SMS"}},
		{"utm_source=p&utm_medium=webpush", "", arrived{"p", "webpush", "Mobile Push Notifications"}},
		{"utm_source=p&utm_medium=social-media", "", arrived{"p", "social-media", "Organic Social"}},
		{"utm_source=p&utm_medium=link", "", arrived{"p", "link", "Referral"}},
		{"utm_source=p&utm_medium=brochure", "", arrived{"p", "brochure", "Unassigned"}},
		{"utm_campaign=may", "", arrived{"", "", "Unassigned"}},
		{"utm_medium=email", "https://www.google.com/", arrived{"Google", "email", "Email"}},
		// click ids
		{"gclid=1", "https://www.google.com/", arrived{"Google", "(gclid)", "Paid Search"}},
		{"gbraid=1", "https://www.google.de/", arrived{"Google", "(gclid)", "Paid Search"}},
		{"WBRAID=1&utm_source=google", "", arrived{"google", "(gclid)", "Paid Search"}},
		{"gclid=1&utm_medium=email", "https://www.google.com/", arrived{"Google", "email", "Email"}},
		{"gclid=1", "", arrived{"", "", "Paid Search"}},
		{"gclid=1", "https://m.youtube.com/", arrived{"YouTube", "", "Paid Video"}},
		{"msclkid=1", "https://www.bing.com/", arrived{"Bing", "(msclkid)", "Paid Search"}},
		{"msclkid=1", "https://www.google.com/", arrived{"Google", "", "Paid Search"}},
		{"gclid=1&msclkid=2", "https://www.bing.com/", arrived{"Bing", "(msclkid)", "Paid Search"}},
		{"fbclid=1", "https://l.facebook.com/", arrived{"Facebook", "", "Organic Social"}},
		{"fbclid=1", "", arrived{"", "", "Organic Social"}},
		{"fbclid=1&utm_source=partner", "", arrived{"partner", "", "Referral"}},
		{"twclid=1", "https://t.co/x", arrived{"X", "", "Paid Social"}},
		{"utm_source=tiktok&ttclid=" + strings.Repeat("x", 6000), "", arrived{"tiktok", "", "Paid Social"}},
		{"gclid=", "", arrived{"", "", "Direct"}},
	}
	r := newRig(t)
	for _, tt := range tests {
		r.beacon(http.StatusAccepted, `{"n":"pageview","u":"https://example.com/page?`+tt.query+`","d":"example.com","r":"`+tt.referrer+`"}`)
	}
	events := r.events()
	if len(events) != len(tests) {
		t.Fatalf("%d events, want %d", len(events), len(tests))
	}
	for i, tt := range tests {
		e := events[i]
		if diff := cmp.Diff(tt.want, arrived{e.Source, e.UTMMedium, e.Channel}); diff != "" {
			t.Errorf("?%.60s from %s: %s", tt.query, tt.referrer, diff)
		}
		if e.Path != "/page" {
			t.Errorf("?%.60s: page %.60s", tt.query, e.Path)
		}
	}
}

// A source's name is a short form's alone: the campaign's tag is as it was sent.
func TestTagsAreStoredAsSent(t *testing.T) {
	r := newRig(t)
	r.beacon(http.StatusAccepted, `{"n":"pageview","u":"https://example.com/?utm_source=FB","d":"example.com"}`)
	if e := r.only(); e.UTMSource != "FB" || e.Source != "Facebook" {
		t.Errorf("utm_source %q, source %q", e.UTMSource, e.Source)
	}
}

func TestSpamReferrers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spam.txt")
	if err := os.WriteFile(path, []byte("# ours\n\nWWW.Spam.Example\nbücher-spam.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := OpenSpamList(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, func(c *Config) { c.Spam = list })
	event := func(referrer string) string {
		return `{"n":"pageview","u":"https://example.com/","d":"example.com","r":"` + referrer + `"}`
	}
	for _, referrer := range []string{"http://semalt.com/crawler.php?u=http://example.com", "https://www.semalt.com", "https://a.spam.example/x", "https://xn--bcher-spam-9db.example/"} {
		got := r.beacon(http.StatusAccepted, event(referrer))
		if got.header.Get(HeaderReason) != string(SpamReferrer) || got.header.Get(HeaderDropped) != "1" {
			t.Errorf("%s is not dropped: %v", referrer, got.header)
		}
	}
	for _, referrer := range []string{"https://notsemalt.com/", "https://semalt.com.example/", "https://ref.example/?semalt.com"} {
		if got := r.beacon(http.StatusAccepted, event(referrer)); got.header.Get(HeaderReason) != "" {
			t.Errorf("%s is dropped", referrer)
		}
	}
	if got := r.refused(SpamReferrer); got != 4 {
		t.Errorf("%d refused as spam, want 4", got)
	}
	// A keyed caller without an agent says what happened; nobody second-guesses it.
	r.post(http.StatusAccepted, `[{"site":"example.com","path":"/","referrer":"https://semalt.com/"}]`, bearer(ingestSecret))
	if got := len(r.events()); got != 4 {
		t.Errorf("%d events, want 4", got)
	}
}

// A list that is replaced, rewritten, broken or removed while the server runs.
func TestSpamListChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "spam.txt")
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("first.example\n")
		log := &levelLog{}
		list, err := OpenSpamList(path, slog.New(log))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- list.Run(ctx) }()
		expect := func(what, spam string, lines int) {
			t.Helper()
			for range 2 { // the second look finds nothing new
				time.Sleep(refreshPeriod)
				synctest.Wait()
			}
			for _, host := range []string{"first.example", "second.example", "third.example"} {
				if got := list.has(host); got != (host == spam) {
					t.Errorf("%s: %s is spam: %v, want %s alone", what, host, got, spam)
				}
			}
			if !list.has("semalt.com") {
				t.Errorf("%s: the built-in list is gone", what)
			}
			if log.lines != lines {
				t.Errorf("%s: %d lines are logged, want %d", what, log.lines, lines)
			}
		}
		expect("as it was", "first.example", 0)
		write("second.example\n")
		expect("rewritten", "second.example", 1)
		write("no list of hosts")
		expect("broken", "second.example", 2)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		expect("removed", "second.example", 2)
		write("third.example\n")
		expect("back", "third.example", 4) // changed, and read again
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func TestBadSpamLists(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"url": "https://spam.example/", "columns": "a.example b.example", "binary": "\x00\x01"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if list, err := OpenSpamList(path, nil); err == nil {
			t.Errorf("%s: read as %v", name, *list.hosts.Load())
		}
	}
	if _, err := OpenSpamList(filepath.Join(dir, "none"), nil); err == nil {
		t.Error("a missing file is read")
	}
}

// TestLists holds the embedded lists to their form: a mistyped line would be a rule that never fits.
func TestLists(t *testing.T) {
	kinds := map[sourceKind]bool{"": true, kindSearch: true, kindSocial: true, kindVideo: true, kindShopping: true, kindEmail: true, kindAI: true}
	seen := map[string]string{}
	for _, line := range lines(sourceLines) {
		c := columns(line, 4)
		if !kinds[sourceKind(strings.TrimPrefix(c[0], "-"))] || c[1] == "" || c[2]+c[3] == "" {
			t.Errorf("sources.txt: %s", line)
		}
		for _, key := range append(strings.Fields(c[2]), strings.Fields(c[3])...) {
			if seen[key] != "" || key != strings.ToLower(key) || strings.HasPrefix(key, "www.") {
				t.Errorf("sources.txt: %s of %s is written badly or also %s's", key, c[1], seen[key])
			}
			seen[key] = c[1]
		}
	}
	for _, id := range clickIDs {
		if s := sources.words[strings.ToLower(id.source)]; s == nil || s.name != id.source {
			t.Errorf("the source %s of %s is not in sources.txt", id.source, id.name)
		}
	}
	for _, line := range lines(agentLines) {
		c := columns(line, 3)
		if !strings.Contains(" browser os device brand platform ", " "+c[0]+" ") || c[1] == "" || c[2] == "" {
			t.Errorf("agents.txt: %s", line)
		}
	}
	for _, mark := range bots.marks {
		if len(mark) < 4 || mark != strings.ToLower(mark) {
			t.Errorf("bots.txt: %q can never fit, or fits too much", mark)
		}
	}
	for _, host := range lines(spamLines) {
		if host != canonicalHost(host) || !strings.Contains(host, ".") {
			t.Errorf("spam.txt: %s", host)
		}
	}
	for _, list := range []string{sourceLines, agentLines, botLines, spamLines} {
		if !strings.Contains(list[:400], "# Origin: ") || !strings.Contains(list[:400], "Date: ") {
			t.Errorf("a list without origin and date: %.60s", list)
		}
	}
}

func FuzzSource(f *testing.F) {
	f.Add("utm_source=fb&gclid=1", "https://www.google.co.uk/")
	f.Add("ref=chatgpt.com", "android-app://com.Slack/")
	f.Fuzz(func(t *testing.T, query, referrer string) {
		s := &Server{spam: builtInSpam()}
		h := &hit{referrer: referrer}
		h.url.Query = query
		h.event.Hostname = "example.com"
		checkReferrer(s, h)
		enrichCampaign(s, h)
		enrichSource(s, h)
		e := &h.event
		for _, field := range []string{e.Source, e.Referrer, e.UTMSource, e.UTMMedium} {
			if !isClean(field) || len(field) > MaxTextBytes {
				t.Errorf("%q is not fit to be stored", field)
			}
		}
		if e.Channel == "" || e.Channel == "Direct" && e.Source != "" {
			t.Errorf("channel %q of source %q", e.Channel, e.Source)
		}
	})
}
