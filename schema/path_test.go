package schema

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPageKey(t *testing.T) {
	hash := PathRules{HashRouting: true}
	page := PathRules{KeepQuery: []string{"page", "lang"}}
	long := "/" + strings.Repeat("é", 2000)
	tests := []struct {
		raw, want string
		rules     PathRules
	}{
		{raw: "", want: "/"},
		{raw: "/", want: "/"},
		{raw: "//", want: "/"},
		{raw: "hello", want: "/hello"},
		{raw: "https://example.com", want: "/"},
		{raw: "https://example.com?x=1", want: "/"},
		{raw: "https://example.com/hello//", want: "/hello"},
		{raw: "https://u:p@example.com/hello", want: "/hello"},
		{raw: "/hello/?fbclid=1#top", want: "/hello"},
		{raw: "/%e6%a9%9f/1", want: "/機/1"},
		{raw: "/%D8%B3%D9%84%D8%A7%D9%85", want: "/سلام"},
		{raw: "/سلام", want: "/سلام"},
		{raw: "/Foo", want: "/Foo"},
		{raw: "/a%2fb", want: "/a%2Fb"},
		{raw: "/a%252fb", want: "/a%252fb"},
		{raw: "/100%", want: "/100%"},
		{raw: "/%zz%4", want: "/%zz%4"},
		{raw: "/%ff%c3", want: "/%FF%C3"},
		{raw: "/%e6%a9/x", want: "/%E6%A9/x"},
		{raw: "/a%3fb%23c", want: "/a%3Fb%23c"},
		{raw: "/a%20b+c", want: "/a b+c"},
		{raw: "/a%00b\x00c", want: "/a%00b%00c"},
		{raw: "/%%34%31", want: "/%%341"},
		{raw: "/%4%31", want: "/%4%31"},
		{raw: "/\xff", want: "/\uFFFD"},
		{raw: "/%ef%bf%bd", want: "/\uFFFD"},
		{raw: "/#/about?tab=1", want: "/#/about", rules: hash},
		{raw: "https://app.example.com/#/about", want: "/#/about", rules: hash},
		{raw: "/#/", want: "/#/", rules: hash},
		{raw: "/#", want: "/", rules: hash},
		{raw: "/a/#/b//", want: "/a#/b", rules: hash},
		{raw: "/#/about", want: "/"},
		{raw: "/?page=Home&x=1", want: "/?page=Home", rules: page},
		{raw: "/?x=2&page=Home", want: "/?page=Home", rules: page},
		{raw: "/?lang=d%65&page=a%26b", want: "/?page=a%26b&lang=de", rules: page},
		{raw: "/?page=Home", want: "/"},
		{raw: long, want: long[:2047]},
	}
	for _, tt := range tests {
		if got := PageKey(tt.raw, tt.rules); got != tt.want {
			t.Errorf("PageKey(%q, %+v) = %q, want %q", tt.raw, tt.rules, got, tt.want)
		}
	}
}

func TestSplitURL(t *testing.T) {
	tests := []struct {
		raw  string
		want URLParts
	}{
		{"https://user:pw@[::1]:8443/a?b=1#c?d", URLParts{"https", "[::1]:8443", "/a", "b=1", "c?d"}},
		{"HTTP://Example.COM", URLParts{Scheme: "HTTP", Host: "Example.COM"}},
		{"https://example.com?to=a@b/c", URLParts{Scheme: "https", Host: "example.com", Query: "to=a@b/c"}},
		{"about:blank", URLParts{Scheme: "about", Path: "blank"}},
		{"file:///C:/x.html", URLParts{Scheme: "file", Path: "/C:/x.html"}},
		{"blob:https://example.com/1", URLParts{Scheme: "blob", Path: "https://example.com/1"}},
		{"android-app://com.example.reader/", URLParts{Scheme: "android-app", Host: "com.example.reader", Path: "/"}},
		{"/a:b", URLParts{Path: "/a:b"}},
		{"//example.com/a", URLParts{Path: "//example.com/a"}},
	}
	for _, tt := range tests {
		if got := SplitURL(tt.raw); got != tt.want {
			t.Errorf("SplitURL(%q) = %+v, want %+v", tt.raw, got, tt.want)
		}
	}
}

func FuzzPageKey(f *testing.F) {
	for _, s := range []string{"/a%2fb", "/%%34%31", "https://e.com/%e6%a9%9f/?page=1#/x/", "/%ff", "/a/#/b/%23", "?page=%26", "%25%32%35"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, raw string, all bool) {
		rules := PathRules{HashRouting: all}
		if all {
			rules.KeepQuery = []string{"page"}
		}
		key := PageKey(raw, rules)
		if !utf8.ValidString(key) || len(key) > MaxPathBytes || !strings.HasPrefix(key, "/") || strings.ContainsAny(key, "\x00\n\x7f") {
			t.Fatalf("PageKey(%q) = %q", raw, key)
		}
		if again := PageKey(key, rules); again != key {
			t.Fatalf("PageKey is not stable: %q, then %q, then %q", raw, key, again)
		}
	})
}
