package ingest

// clickID is a parameter that an advertiser's network appends to the addresses it sends people to. Its value is unique to the
// click: it is neither kept nor part of a page.
type clickID struct {
	name   string
	kind   sourceKind // of the network
	source string     // the network, as sources.txt names it
	medium string     // stands for a medium when the source is the network and none was sent; empty: none does
	paid   bool       // only clicks on advertisements carry it
}

// clickIDs are those that are known, the strongest first. Facebook's is on each link that leaves it, paid for or not.
var clickIDs = [...]clickID{
	{"gclid", kindSearch, "Google", "(gclid)", true},
	{"gbraid", kindSearch, "Google", "(gclid)", true},
	{"wbraid", kindSearch, "Google", "(gclid)", true},
	{"msclkid", kindSearch, "Bing", "(msclkid)", true},
	{"twclid", kindSocial, "X", "", true},
	{"ttclid", kindSocial, "TikTok", "", true},
	{"fbclid", kindSocial, "Facebook", "", false},
}

// clicks is a set of click ids, by their place in clickIDs.
type clicks uint8

// note adds the click id that a parameter's name is and reports whether it is one.
func (c *clicks) note(name string) bool {
	if len(name) < len("gclid") || len(name) > len("msclkid") {
		return false
	}
	for i := range clickIDs {
		if equalFold(name, clickIDs[i].name) {
			*c |= 1 << i
			return true
		}
	}
	return false
}

// of is the click id of the set that belongs to the source, else the strongest; nil when there is none.
func (c clicks) of(known *source) *clickID {
	var found *clickID
	for i := range clickIDs {
		if c&(1<<i) == 0 {
			continue
		}
		if known != nil && clickIDs[i].source == known.name {
			return &clickIDs[i]
		}
		if found == nil {
			found = &clickIDs[i]
		}
	}
	return found
}
