package ingest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	blink  = " AppleWebKit/537.36 (KHTML, like Gecko) "
	webkit = " AppleWebKit/605.1.15 (KHTML, like Gecko) "
	iPhone = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X)" + webkit
	nt10   = "Mozilla/5.0 (Windows NT 10.0; Win64; x64)" + blink + "Chrome/126.0.0.0 "
)

func TestAgents(t *testing.T) {
	tests := []struct {
		ua   string
		want agent
	}{
		{browser, agent{"Chrome", "126.0", "Windows", "10", "Desktop", false}},
		{"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)" + webkit + "Version/17.4.1 Safari/605.1.15", agent{"Safari", "17.4", "macOS", "10.15", "Desktop", false}},
		{"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)" + webkit + "Version/17.5 Safari/605.1.15 Ddg/17.5", agent{"DuckDuckGo", "17.5", "macOS", "10.15", "Desktop", false}},
		{iPhone + "Version/17.5 Mobile/15E148 Safari/604.1", agent{"Safari", "17.5", "iOS", "17.5", "Mobile", false}},
		{iPhone + "CriOS/126.0.6478.54 Mobile/15E148 Safari/604.1", agent{"Chrome", "126.0", "iOS", "17.5", "Mobile", false}},
		{iPhone + "FxiOS/127.0 Mobile/15E148 Safari/605.1.15", agent{"Firefox", "127.0", "iOS", "17.5", "Mobile", false}},
		{iPhone + "Version/17.0 EdgiOS/126.0.2592.56 Mobile/15E148 Safari/605.1.15", agent{"Edge", "126.0", "iOS", "17.5", "Mobile", false}},
		{iPhone + "OPT/4.9.1 Mobile/15E148", agent{"Opera", "4.9", "iOS", "17.5", "Mobile", false}},
		{iPhone + "GSA/321.0.642804631 Mobile/15E148 Safari/604.1", agent{"Google App", "321.0", "iOS", "17.5", "Mobile", false}},
		{iPhone + "Mobile/15E148 Instagram 334.0.4.32.98 (iPhone12,1; iOS 17_5; de_DE; de; scale=2.00)", agent{"Instagram", "334.0", "iOS", "17.5", "Mobile", false}},
		{iPhone + "Mobile/21F79 [FBAN/FBIOS;FBAV/467.0.0.38.105;FBBV/1;FBDV/iPhone12,1;FBLC/de_DE]", agent{"Facebook", "467.0", "iOS", "17.5", "Mobile", false}},
		{"Mozilla/5.0 (iPad; CPU OS 16_6 like Mac OS X)" + webkit + "Version/16.6 Mobile/15E148 Safari/604.1", agent{"Safari", "16.6", "iOS", "16.6", "Tablet", false}},
		{"Mozilla/5.0 (Linux; Android 14; Pixel 8)" + blink + "Chrome/126.0.6478.72 Mobile Safari/537.36", agent{"Chrome", "126.0", "Android", "14", "Mobile", false}},
		{"Mozilla/5.0 (Linux; Android 10; K)" + blink + "Chrome/126.0.0.0 Safari/537.36", agent{"Chrome", "126.0", "Android", "10", "Tablet", false}},
		{"Mozilla/5.0 (Linux; Android 13; SM-X906C)" + blink + "SamsungBrowser/25.0 Chrome/121.0.0.0 Safari/537.36", agent{"Samsung Browser", "25.0", "Android", "13", "Tablet", false}},
		{"Mozilla/5.0 (Android 14; Tablet; rv:127.0) Gecko/127.0 Firefox/127.0", agent{"Firefox", "127.0", "Android", "14", "Tablet", false}},
		{"Mozilla/5.0 (Android 14; Mobile; rv:127.0) Gecko/127.0 Firefox/127.0", agent{"Firefox", "127.0", "Android", "14", "Mobile", false}},
		{"Mozilla/5.0 (Linux; Android 12; ELS-NX9)" + blink + "HuaweiBrowser/14.0.5.303 HMSCore/6.13.0.352 Mobile Safari/537.36", agent{"Huawei Browser", "14.0", "Android", "12", "Mobile", false}},
		{"Mozilla/5.0 (Linux; U; Android 13; en-us; M2101K6G)" + blink + "Version/4.0 Chrome/112.0.5615.136 Mobile Safari/537.36 XiaoMi/MiuiBrowser/14.10.1.1-gn", agent{"Xiaomi Browser", "14.10", "Android", "13", "Mobile", false}},
		{"Opera/9.80 (Android; Opera Mini/36.2.2254/119.132; U; id) Presto/2.12.423 Version/12.16", agent{"Opera Mini", "36.2", "Android", "", "Mobile", false}},
		{"Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:126.0) Gecko/20100101 Firefox/126.0", agent{"Firefox", "126.0", "Linux", "", "Desktop", false}},
		{"Mozilla/5.0 (X11; FreeBSD amd64; rv:126.0) Gecko/20100101 Firefox/126.0", agent{"Firefox", "126.0", "FreeBSD", "", "Desktop", false}},
		{"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0)" + blink + "Chrome/126.0.0.0 Safari/537.36", agent{"Chrome", "126.0", "ChromeOS", "", "Desktop", false}},
		{"Mozilla/5.0 (Windows NT 6.1; Win64; x64; rv:115.0) Gecko/20100101 Firefox/115.0", agent{"Firefox", "115.0", "Windows", "7", "Desktop", false}},
		{"Mozilla/5.0 (Windows NT 6.1; WOW64; Trident/7.0; rv:11.0) like Gecko", agent{"IE", "11.0", "Windows", "7", "Desktop", false}},
		{nt10 + "Safari/537.36 Edg/126.0.0.0", agent{"Edge", "126.0", "Windows", "10", "Desktop", false}},
		{nt10 + "Safari/537.36 OPR/111.0.0.0", agent{"Opera", "111.0", "Windows", "10", "Desktop", false}},
		{nt10 + "YaBrowser/24.6.0.0 Safari/537.36", agent{"Yandex Browser", "24.6", "Windows", "10", "Desktop", false}},
		{nt10 + "Safari/537.36 Vivaldi/6.8.3381.44", agent{"Vivaldi", "6.8", "Windows", "10", "Desktop", false}},
		{nt10 + "Safari/537.36 Whale/" + strings.Repeat("9", 500), agent{"Naver Whale", "", "Windows", "10", "Desktop", false}},
		{nt10 + "Safari/537.36 Whale/3.26.244.21", agent{"Naver Whale", "3.26", "Windows", "10", "Desktop", false}},
		{"Mozilla/5.0 (SMART-TV; LINUX; Tizen 6.0)" + blink + "76.0.3809.146/6.0 TV Safari/537.36", agent{"Safari", "", "Tizen", "", "TV", false}},
		{"Mozilla/5.0 (PlayStation; PlayStation 5/7.61)" + webkit + "Version/15.4 Safari/605.1.15", agent{"Safari", "15.4", "PlayStation", "", "Console", false}},
	}
	cache := newAgentCache()
	for _, tt := range tests {
		for range 2 { // the second time from the cache
			if diff := cmp.Diff(tt.want, *cache.get(tt.ua, hints{}), cmp.AllowUnexported(agent{})); diff != "" {
				t.Errorf("%s: %s", tt.ua, diff)
			}
		}
	}
}

func TestBotsThatLookLikeBrowsers(t *testing.T) {
	bots := []string{
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
		"Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X)" + blink + "Chrome/114.0.0.0 Mobile Safari/537.36 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
		"Mozilla/5.0 (Linux; Android 6.0.1; Nexus 5X)" + blink + "Chrome/114.0.0.0 Mobile Safari/537.36 (compatible; GoogleOther)",
		"Mozilla/5.0 (Linux; Android 11; moto g power)" + blink + "Chrome/126.0.0.0 Mobile Safari/537.36 Chrome-Lighthouse",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko); compatible; ChatGPT-User/1.0; +https://openai.com/bot",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)",
		"Mozilla/5.0 (X11; Linux x86_64)" + blink + "HeadlessChrome/126.0.0.0 Safari/537.36",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64)" + blink + "Chrome/126.0.0.0 Safari/537.36 PTST/240601.1",
		"Mozilla/5.0 (Unknown; Linux x86_64) AppleWebKit/538.1 (KHTML, like Gecko) PhantomJS/2.1.1 Safari/538.1",
		"Mozilla/5.0 (Windows NT 6.1; WOW64)" + blink + "Chrome/41.0.2272.118 Safari/537.36 (compatible; UptimeRobot/2.0; http://www.uptimerobot.com/)",
		"Mozilla/5.0 (X11; Linux x86_64)" + blink + "Chrome/126.0.0.0 Safari/537.36 Checkly, https://www.checklyhq.com",
		"Pingdom.com_bot_version_1.4_(http://www.pingdom.com/)", "facebookexternalhit/1.1 (+http://www.facebook.com/externalhit_uatext.php)", "WhatsApp/2.23.20.0",
		"curl/8.5.0", "python-requests/2.31.0", "Go-http-client/1.1", "Wget/1.21", "okhttp/4.12.0", "node", "axios/1.6.8", "Java/17.0.2", "PostmanRuntime/7.39.0",
		"GuzzleHttp/7", "Ruby", "Scrapy/2.11.1 (+https://scrapy.org)", "kube-probe/1.29", "ELB-HealthChecker/2.0", "Prometheus/2.52.0",
	}
	people := []string{
		"Mozilla/5.0 (Linux; Android 12; CUBOT X19)" + blink + "Chrome/99.0 Mobile Safari/537.36",
		"Mozilla/5.0 (Linux; Android 9; CUBOT)" + blink + "Chrome/99.0 Mobile Safari/537.36",
		"Mozilla/5.0 (Linux; Android 9; CUBOT; wv)" + blink + "Version/4.0 Chrome/99.0 Mobile Safari/537.36",
		"Mozilla/5.0 (X11; Linux x86_64)" + blink + "Notion/3.9.0 Chrome/124.0.6367.243 Electron/30.1.2 Safari/537.36",
		"Mozilla/5.0 (Linux; Android 14; SM-S911B Build/UP1A.231005.007; wv)" + blink + "Version/4.0 Chrome/125.0.6422.147 Mobile Safari/537.36 [FB_IAB/FB4A;FBAV/466.1.0.60.87;]",
	}
	cache := newAgentCache()
	for _, ua := range bots {
		if !cache.get(ua, hints{}).bot {
			t.Errorf("%s is no bot", ua)
		}
	}
	for _, ua := range people {
		if cache.get(ua, hints{}).bot {
			t.Errorf("%s is a bot", ua)
		}
	}
}

func TestHints(t *testing.T) {
	const chromium = `"Chromium";v="126", "Not/A)Brand";v="8", `
	linux := "Mozilla/5.0 (X11; Linux x86_64)" + blink + "Chrome/126.0.0.0 Safari/537.36"
	phone := "Mozilla/5.0 (Linux; Android 10; K)" + blink + "Chrome/126.0.0.0 Mobile Safari/537.36"
	mac := "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)" + blink + "Chrome/126.0.0.0 Safari/537.36"
	tests := []struct {
		name  string
		ua    string
		hints hints
		want  agent
	}{
		{"Chrome as ever", browser, hints{brands: chromium + `"Google Chrome";v="126"`, platform: `"Windows"`, mobile: "?0"}, agent{"Chrome", "126.0", "Windows", "10", "Desktop", false}},
		{"Windows 11", browser, hints{brands: chromium + `"Google Chrome";v="126"`, platform: `"Windows"`, version: `"15.0.0"`}, agent{"Chrome", "126.0", "Windows", "11", "Desktop", false}},
		{"Windows 10", browser, hints{brands: chromium + `"Google Chrome";v="126"`, platform: `"Windows"`, version: `"10.0.0"`}, agent{"Chrome", "126.0", "Windows", "10", "Desktop", false}},
		{"Windows 8.1", browser, hints{brands: chromium, platform: `"Windows"`, version: `"0.3.0"`}, agent{"Chrome", "126.0", "Windows", "8.1", "Desktop", false}},
		{"Brave", linux, hints{brands: `"Brave";v="126", ` + chromium, platform: `"Linux"`, version: `"6.8.0"`}, agent{"Brave", "126.0", "Linux", "", "Desktop", false}},
		{"full version", mac, hints{brands: chromium + `"Google Chrome";v="126"`, full: `"Chromium";v="126.2.6478.127", "Not;A\"Brand, x";v="8.0.0.0", "Google Chrome";v="126.2.6478.127"`, platform: `"macOS"`, version: `"14.5.0"`}, agent{"Chrome", "126.2", "macOS", "14.5", "Desktop", false}},
		{"Edge", browser + " Edg/126.0.0.0", hints{brands: chromium + `"Microsoft Edge";v="126"`}, agent{"Edge", "126.0", "Windows", "10", "Desktop", false}},
		{"Opera, unlike Chromium's version", browser, hints{brands: `"Opera";v="112", ` + chromium}, agent{"Opera", "112", "Windows", "10", "Desktop", false}},
		{"Vivaldi, which claims to be Chrome", browser + " Vivaldi/6.8.3381.44", hints{brands: chromium + `"Google Chrome";v="126"`}, agent{"Vivaldi", "6.8", "Windows", "10", "Desktop", false}},
		{"Android 14", phone, hints{brands: chromium + `"Google Chrome";v="126"`, platform: `"Android"`, version: `"14.0.0"`, mobile: "?1"}, agent{"Chrome", "126.0", "Android", "14", "Mobile", false}},
		{"Android 8.1", phone, hints{brands: chromium, platform: `"Android"`, version: `"8.1.0"`}, agent{"Chrome", "126.0", "Android", "8.1", "Mobile", false}},
		{"tablet", phone, hints{brands: chromium, platform: `"Android"`, mobile: "?0"}, agent{"Chrome", "126.0", "Android", "10", "Tablet", false}},
		{"phone that asks for the desktop's page", linux, hints{brands: chromium, platform: `"Android"`, version: `"14.0.0"`, mobile: "?1"}, agent{"Chrome", "126.0", "Android", "14", "Mobile", false}},
		{"ChromeOS", linux, hints{brands: chromium, platform: `"Chrome OS"`}, agent{"Chrome", "126.0", "ChromeOS", "", "Desktop", false}},
		{"headless", browser, hints{brands: chromium + `"HeadlessChrome";v="126"`}, agent{"Chrome", "126.0", "Windows", "10", "Desktop", true}},
		{"nonsense", browser, hints{brands: `"Brave;v=`, full: `""";;v="`, platform: `"\"Plan 9"`, version: `"x"`, mobile: "yes"}, agent{"Chrome", "126.0", "Windows", "10", "Desktop", false}},
		{"nonsense in a version", browser, hints{brands: `"Brave";v="<script>"`, platform: `"Windows"`, version: `"99999.1"`}, agent{"Brave", "", "Windows", "10", "Desktop", false}},
	}
	cache := newAgentCache()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 {
				if diff := cmp.Diff(tt.want, *cache.get(tt.ua, tt.hints), cmp.AllowUnexported(agent{})); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestHintsOfRequests(t *testing.T) {
	hints := []string{`Sec-CH-UA: "Brave";v="126", "Chromium";v="126"`, `Sec-CH-UA-Platform: "Windows"`, `Sec-CH-UA-Platform-Version: "15.0.0"`, "Sec-CH-UA-Mobile: ?0"}
	r := newRig(t)
	r.beacon(http.StatusAccepted, `{"n":"pageview","u":"https://example.com/","d":"example.com"}`, hints...)
	// A server's own browser says nothing about the one that it speaks for.
	const other = `[{"site":"example.com","path":"/","user_agent":"Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:126.0) Gecko/20100101 Firefox/126.0"}]`
	r.post(http.StatusAccepted, other, append(hints, bearer(ingestSecret))...)
	r.beacon(http.StatusAccepted, `{"n":"pageview","u":"https://example.com/","d":"example.com"}`, append(hints, "Sec-CH-UA: "+strings.Repeat("x", 5000))...)
	var got []string
	for _, e := range r.events() {
		got = append(got, e.Browser+" "+e.OS+" "+e.OSVersion)
	}
	if diff := cmp.Diff([]string{"Brave Windows 11", "Firefox Linux ", "Chrome Windows 10"}, got); diff != "" {
		t.Error(diff)
	}
}

func FuzzHints(f *testing.F) {
	f.Add(browser, `"Brave";v="126", "Not;A\"B";v="8"`, `"Brave";v="126.1"`, `"Windows"`, `"15.0.0"`, "?1")
	f.Fuzz(func(t *testing.T, ua, brands, full, platform, version, mobile string) {
		a := newAgentCache().parse(ua)
		hints{brands, full, platform, version, mobile}.apply(a)
		for _, v := range []string{a.browserVersion, a.osVersion} {
			if strings.ContainsAny(v, "\"<>\x00") || len(v) > maxVersionBytes {
				t.Errorf("version %q", v)
			}
		}
	})
}
