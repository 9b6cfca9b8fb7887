package ingest

import (
	"strings"

	"github.com/pagetally/pagetally/schema"
)

// checkReferrer refuses what spam sends and stores the referrer without query, fragment and user information. A referrer on the
// page's own host says nothing.
func checkReferrer(s *Server, h *hit) Reason {
	if h.referrer == "" {
		return Accepted
	}
	referrer := strings.TrimSpace(h.referrer)
	u := schema.SplitURL(referrer)
	if u.Host == "" || u.Scheme == "" {
		return Accepted
	}
	host := u.Host // an app's package keeps its case
	if isHTTP(u.Scheme) {
		host = canonicalHost(host)
	}
	host = cleanText(host, maxDomainBytes)
	if host == "" || host == h.event.Hostname {
		return Accepted
	}
	if h.judged && s.spam.has(host) {
		return SpamReferrer
	}
	h.from, h.fromApp = host, !isHTTP(u.Scheme)
	h.event.Referrer = referrerText(referrer, u)
	return Accepted
}

// referrerText is the referrer as stored. What needs no change is not copied.
func referrerText(referrer string, u schema.URLParts) string {
	if n := len(u.Scheme) + len("://") + len(u.Host) + len(u.Path); n == len(referrer) {
		return cleanText(referrer, MaxTextBytes)
	}
	return cleanText(u.Scheme+"://"+u.Host+u.Path, MaxTextBytes)
}

// enrichSource names the source (the campaign's, else the one that the referrer's host or app stands for, else these themselves), the
// medium that a click id stands for, and the channel.
func enrichSource(_ *Server, h *hit) Reason {
	e := &h.event
	known := h.nameSource()
	click := h.clicks.of(known)
	if e.UTMMedium == "" && click != nil && known != nil && click.source == known.name {
		e.UTMMedium = click.medium
	}
	h.arrival = arrival{source: e.Source, medium: strings.ToLower(e.UTMMedium), campaign: strings.ToLower(e.UTMCampaign), click: click}
	a := &h.arrival
	if known != nil {
		a.kind = known.kind
	}
	if a.kind == "" && click != nil && (click.paid || e.Source == "") {
		a.kind = click.kind
	}
	e.Channel = a.channel()
	return Accepted
}

// nameSource sets the event's source and returns what is known of it.
func (h *hit) nameSource() *source {
	e := &h.event
	if e.Source != "" {
		known, shown := sources.ofWord(e.Source)
		if shown {
			e.Source = known.name
		}
		return known
	}
	if h.from == "" {
		return nil
	}
	known := sources.ofHost(h.from)
	if h.fromApp {
		known = sources.apps[strings.ToLower(h.from)]
	}
	e.Source = h.from
	if known != nil {
		e.Source = known.name
	}
	return known
}
