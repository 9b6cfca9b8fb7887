//go:build linux

// Command pagetallybench measures pagetally as a whole, beside a server that does nothing, and prints one table.
//
// It runs these measurements on the real binary with its embedded engine:
//
//   - throughput: POST /api/event as fast as N connections can ask, in turn against a bare Fiber server that answers 202 and
//     against pagetally, which parses, journals, delivers and adds up on the same cores. After each turn it waits until all
//     is delivered and compares the tables with what was acknowledged: the difference must be zero.
//   - visibility: at a moderate rate, from the sending of a view of a new page until GET /v1/count has it.
//   - hot counts: the same until GET /v1/realtime has it; GET /v1/count?mode=recent beside a GET of one key of the same Redis; and what hot
//     counts and claims in a redis-server cost, beside a server without.
//   - delivery: a journal filled without an engine is delivered, beside a raw insert of the same rows into a bare copy of
//     the events table, in blocks of the same size.
//
// `pagetallybench read` makes a year of views (year.go), and asks what dashboards ask of it, beside the same questions over the raw events.
//
// Client, server and engine share the machine, so the client is made to cost little: requests are built beforehand, and one
// thread or two drive all connections through epoll. It therefore runs on Linux only. Start reading at bench.run.
package main
