package ingest

// checkOptOut drops the views of visitors whose browser asks not to be tracked (DNT: 1) or whose data not to be passed on
// (Sec-GPC: 1), where the site says so. Only a browser's own request carries its wish; the headers of a job say nothing about
// the visitors that it reports.
func checkOptOut(_ *Server, h *hit) Reason {
	if !h.site.RespectDNT && !h.site.RespectGPC || h.keyed || h.by == nil || h.by.request == nil {
		return Accepted
	}
	header := &h.by.request.Request().Header
	switch {
	case h.site.RespectDNT && text(header.Peek("DNT")) == "1":
		return DoNotTrack
	case h.site.RespectGPC && text(header.Peek("Sec-GPC")) == "1":
		return PrivacyControl
	}
	return Accepted
}
