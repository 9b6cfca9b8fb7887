package ingest

import "strings"

// arrival is how a visitor came, as far as channels go. Medium and campaign are in lower case.
type arrival struct {
	source   string // of the campaign, else the referrer's host or app; empty when neither is there
	kind     sourceKind
	medium   string
	campaign string
	click    *clickID // of an advertiser's network; nil when there is none
	paid     bool     // set by channel
}

// channelRules are the channels by Google Analytics 4's default channel groups, so that numbers can be compared: the first that
// fits. They depart from them in two ways. A medium that names its channel (email, affiliate, audio, sms, push) goes before the kind
// of the source. And a source without a medium ("?ref=partner") is a referral.
var channelRules = []struct {
	channel string
	fits    func(*arrival) bool
}{
	{"Direct", func(a *arrival) bool { return *a == arrival{} }},
	{"Cross-network", func(a *arrival) bool { return strings.Contains(a.campaign, "cross-network") }},
	{"Paid Shopping", func(a *arrival) bool { return a.paid && a.isShopping() }},
	{"Paid Search", func(a *arrival) bool { return a.paid && a.kind == kindSearch }},
	{"Paid Social", func(a *arrival) bool { return a.paid && a.kind == kindSocial }},
	{"Paid Video", func(a *arrival) bool { return a.paid && a.kind == kindVideo }},
	{"Display", func(a *arrival) bool { return a.mediumIs("display", "banner", "expandable", "interstitial", "cpm") }},
	{"Paid Other", func(a *arrival) bool { return a.paid }},
	{"Email", func(a *arrival) bool { return a.mediumIs("email", "e-mail", "e_mail", "e mail", "mail", "newsletter") }},
	{"Affiliates", func(a *arrival) bool { return a.mediumIs("affiliate", "affiliates") }},
	{"Audio", func(a *arrival) bool { return a.mediumIs("audio") }},
	{"SMS", func(a *arrival) bool { return a.mediumIs("sms") || equalFold(a.source, "sms") }},
	{"Mobile Push Notifications", (*arrival).pushed},
	{"AI Assistant", func(a *arrival) bool { return a.kind == kindAI || a.mediumIs("ai-assistant") }},
	{"Organic Shopping", (*arrival).isShopping},
	{"Organic Social", func(a *arrival) bool {
		return a.kind == kindSocial || a.mediumIs("social", "social-network", "social-media", "sm", "social network", "social media")
	}},
	{"Organic Video", func(a *arrival) bool { return a.kind == kindVideo || strings.Contains(a.medium, "video") }},
	{"Organic Search", func(a *arrival) bool { return a.kind == kindSearch || a.mediumIs("organic") }},
	{"Email", func(a *arrival) bool { return a.kind == kindEmail }},
	{"Referral", func(a *arrival) bool {
		return a.mediumIs("referral", "app", "link") || a.medium == "" && a.source != ""
	}},
	{"Unassigned", func(*arrival) bool { return true }},
}

// channel is the channel of an arrival.
func (a *arrival) channel() string {
	a.paid = a.wasPaid()
	for i := range channelRules {
		if channelRules[i].fits(a) {
			return channelRules[i].channel
		}
	}
	return "" // the last rule fits all
}

func (a *arrival) mediumIs(list ...string) bool {
	if a.medium == "" {
		return false
	}
	for _, medium := range list {
		if a.medium == medium {
			return true
		}
	}
	return false
}

// wasPaid reports whether the medium says that the click was paid for, or, when it says nothing, the click id.
func (a *arrival) wasPaid() bool {
	if a.medium == "" || strings.HasPrefix(a.medium, "(") {
		return a.click != nil && a.click.paid
	}
	return a.mediumIs("ppc", "retargeting") || strings.HasPrefix(a.medium, "paid") || strings.Contains(a.medium, "cp")
}

func (a *arrival) isShopping() bool { return a.kind == kindShopping || isShoppingName(a.campaign) }

// isShoppingName reports whether a campaign's name speaks of a shop and not of a workshop: as ^(.*(([^a-df-z]|^)shop|shopping).*)$
// would, which is the rule of the default channel groups.
func isShoppingName(campaign string) bool {
	for rest := campaign; ; {
		i := strings.Index(rest, "shop")
		if i < 0 {
			return false
		}
		if strings.HasPrefix(rest[i:], "shopping") || i == 0 && len(rest) == len(campaign) {
			return true
		}
		if i > 0 {
			if c := rest[i-1]; c < 'a' || c > 'z' || c == 'e' {
				return true
			}
		}
		rest = rest[i+len("shop"):]
	}
}

func (a *arrival) pushed() bool {
	if a.medium == "" {
		return equalFold(a.source, "firebase")
	}
	return strings.HasSuffix(a.medium, "push") || strings.Contains(a.medium, "mobile") || strings.Contains(a.medium, "notification") || equalFold(a.source, "firebase")
}
