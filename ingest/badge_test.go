package ingest

import "testing"

func TestOnlyBadgeSite(t *testing.T) {
	a, b := Site{Domain: "a.example", Badge: true}, Site{Domain: "bücher.example", Badge: true}
	tests := []struct {
		name string
		list []Site
		want string
	}{
		{"none", []Site{{Domain: "a.example"}}, ""},
		{"one of two, known by two names", []Site{{Domain: "a.example"}, b}, b.Domain},
		{"two", []Site{a, b}, ""},
	}
	for _, test := range tests {
		sites, err := NewSites(test.list, true)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := sites.OnlyBadge()
		if ok != (test.want != "") || ok && got.Domain != test.want {
			t.Errorf("%s: got %v, want %q", test.name, got, test.want)
		}
	}
}
