// Package ingest receives view events over HTTP and acknowledges them once they are durable.
//
// An event goes one way: decode (a dialect's own format becomes a hit) -> check (site, host, origin, limits) -> enrich (agent,
// campaign, source, visitor) -> Journal.Append -> 2xx. Everything about the event is final when it is appended; nothing
// behind this package changes it.
//
// Guarantees: a 2xx without a drop header means that the event is in the journal, synced. What is not counted is answered with
// its reason and counted by it; what cannot be journaled now is answered 503 with Retry-After. Sizes, batches, caches and
// labels are bounded. Bad input is never logged as an error.
//
// Request buffers belong to fasthttp and are used again after the handler returns. Events point into them until they are
// encoded into the payload of their frame, which is the only thing that leaves the handler; caches clone what they keep.
//
// A server that faces the world is set up with FiberConfig, Harden and Linger: fasthttp alone takes requests whose end is in doubt.
// Rates and new paths are bounded by site, in fixed memory and for this process alone; Explain looks at all that without using it up.
//
// A count that comes back with an event (returning.go) is what the tables hold plus what this node journaled and did not deliver
// yet (pending.go), which delivery reports about.
//
// New starts nothing. Three parts own a goroutine, each in its Run method: Salts (days ahead, publishing), Keys and LiveSites
// (refreshing).
//
// Lists of sources, agents, bots and spam are text files beside the code; package geo tells places.
//
// Start reading at server.go, then pipeline.go; plausible.go, umami.go, goatcounter.go, pixel.go and native.go are the
// dialects.
package ingest
