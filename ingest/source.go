package ingest

import (
	"strings"

	"github.com/pagetally/pagetally/schema"
)

// Channels of an event.
const (
	channelDirect   = "direct"
	channelReferral = "referral"
	channelCampaign = "campaign"
)

// enrichSource stores the referrer without query, fragment and user information, and names the source: the campaign's, else the
// referrer's host, else an app's package. A referrer on the page's own host says nothing.
func enrichSource(_ *Server, h *hit) Reason {
	e := &h.event
	host := ""
	if h.referrer != "" {
		host = enrichReferrer(e, h.referrer)
	}
	switch {
	case e.Source != "" || e.UTMMedium != "" || e.UTMCampaign != "":
		e.Channel = channelCampaign
	case host != "":
		e.Channel = channelReferral
	default:
		e.Channel = channelDirect
	}
	if e.Source == "" {
		e.Source = host
	}
	return Accepted
}

// enrichReferrer sets the event's referrer and returns the host that it names, empty when it names none or the page's own.
func enrichReferrer(e *schema.Event, referrer string) (host string) {
	u := schema.SplitURL(strings.TrimSpace(referrer))
	if u.Host == "" || u.Scheme == "" {
		return ""
	}
	if isHTTP(u.Scheme) {
		host = canonicalHost(u.Host)
	} else {
		host = u.Host // an app's package keeps its case
	}
	host = cleanText(host, maxDomainBytes)
	if host == "" || host == e.Hostname {
		return ""
	}
	e.Referrer = referrerText(referrer, u)
	return host
}

// referrerText is the referrer as stored. What needs no change is not copied.
func referrerText(referrer string, u schema.URLParts) string {
	if n := len(u.Scheme) + len("://") + len(u.Host) + len(u.Path); n == len(referrer) {
		return cleanText(referrer, MaxTextBytes)
	}
	return cleanText(u.Scheme+"://"+u.Host+u.Path, MaxTextBytes)
}

// clickMedium is the medium that an advertiser's click id stands for when the referrer is that advertiser.
func clickMedium(c *campaign, referrer string) string {
	if !c.google && !c.microsoft {
		return ""
	}
	name, _, _ := strings.Cut(canonicalHost(schema.SplitURL(referrer).Host), ".")
	switch {
	case c.google && name == "google":
		return "(gclid)"
	case c.microsoft && name == "bing":
		return "(msclkid)"
	}
	return ""
}
