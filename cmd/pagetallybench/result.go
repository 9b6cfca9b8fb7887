//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// What is aimed at.
const (
	aimRatio    = 0.6 // of the bare server's requests a second
	aimMemory   = 150 // MB of pagetally itself
	aimVisible  = 2.0 // seconds, at the 99th percentile
	aimRealtime = 1.2 // seconds, at the 99th percentile
	aimRecent   = 4.0 // times the latency of a bare GET, at the 99th percentile
	aimCost     = 0.9 // of the requests a second without hot counts and claims in Redis
	aimDelivery = 0.7 // of a raw insert's rows a second
	megabyte    = 1e6 // bytes
)

// result is what was measured.
type result struct {
	Go         string          `json:"go"`
	Cores      int             `json:"cores"`
	Threads    int             `json:"client_threads"`
	Seconds    float64         `json:"seconds_of_load"`
	Throughput []throughputRow `json:"throughput"`
	Memory     memoryRow       `json:"memory"`
	Visibility *visibilityRow  `json:"visibility,omitempty"`
	Realtime   []realtimeRow   `json:"realtime,omitempty"`
	Recent     *recentRow      `json:"recent,omitempty"`
	Cost       *costRow        `json:"cost,omitempty"`
	Delivery   *deliveryRow    `json:"delivery,omitempty"`
}

// throughputRow compares the servers at one number of connections. Latencies are milliseconds.
type throughputRow struct {
	Connections  int     `json:"connections"`
	Bare         float64 `json:"bare_per_second"`
	Pagetally    float64 `json:"pagetally_per_second"`
	Ratio        float64 `json:"ratio"`
	BareP50      float64 `json:"bare_p50_ms"`
	BareP99      float64 `json:"bare_p99_ms"`
	P50          float64 `json:"p50_ms"`
	P99          float64 `json:"p99_ms"`
	DrainSeconds float64 `json:"drain_seconds"` // the longest time from the end of a turn until all is delivered
	Acknowledged int64   `json:"acknowledged"`
	Refused      int64   `json:"refused"`
	Unanswered   int64   `json:"unanswered"`
	Lost         int64   `json:"lost"`  // acknowledged and not counted, in the table where most are missing
	Extra        int64   `json:"extra"` // counted and not sent

	// CPU time a request, in microseconds; pagetally's and the engine's until all is delivered. On a machine that has other
	// work to do these say more than the rates.
	BareCPU   float64 `json:"bare_cpu_us"`
	ServerCPU float64 `json:"pagetally_cpu_us"`
	EngineCPU float64 `json:"engine_cpu_us"`
	ClientCPU float64 `json:"client_cpu_us"` // with the bare server
}

// memoryRow is the most resident memory seen while throughput was measured, in bytes.
type memoryRow struct {
	Pagetally int64 `json:"pagetally"`
	Engine    int64 `json:"engine"`
}

// realtimeRow is the time from the acknowledgement of a view until /v1/realtime has it, by the kind of Redis.
type realtimeRow struct {
	Redis string `json:"redis"`
	visibilityRow
}

// recentRow compares a recent count with the GET of one key of the same Redis. Latencies are milliseconds.
type recentRow struct {
	Connections int     `json:"connections"`
	Rate        float64 `json:"requests_per_second"`
	Answers     int64   `json:"answers"`
	BareP50     float64 `json:"bare_p50_ms"`
	BareP99     float64 `json:"bare_p99_ms"`
	P50         float64 `json:"p50_ms"`
	P99         float64 `json:"p99_ms"`
}

// costRow compares a server with hot counts and claims in Redis and one without: requests a second, and CPU time a request in microseconds
// until all is delivered.
type costRow struct {
	Connections int     `json:"connections"`
	With        float64 `json:"with_per_second"`
	Without     float64 `json:"without_per_second"`
	WithCPU     float64 `json:"with_cpu_us"`
	WithoutCPU  float64 `json:"without_cpu_us"`
}

// visibilityRow is the time from sending a view to reading its count, in seconds.
type visibilityRow struct {
	Rate   float64 `json:"requests_per_second"`
	Probes int64   `json:"probes"`
	P50    float64 `json:"p50_seconds"`
	P99    float64 `json:"p99_seconds"`
}

// deliveryRow compares the delivery of a backlog with raw inserts of the same rows: into the same tables, and into the events alone.
type deliveryRow struct {
	Events        int64   `json:"events"`
	Batches       int64   `json:"batches"`
	Seconds       float64 `json:"seconds"`
	PerSecond     float64 `json:"rows_per_second"`
	RawPerSecond  float64 `json:"raw_rows_per_second"`
	BarePerSecond float64 `json:"bare_rows_per_second"` // without the counters, the breakdowns and the ids
	Lost          int64   `json:"lost"`

	// CPU time a row, in microseconds, of the engine and whoever inserts. The merges behind the rows are in it as far as they ran.
	CPU     float64 `json:"cpu_us"`
	RawCPU  float64 `json:"raw_cpu_us"`
	BareCPU float64 `json:"bare_cpu_us"`
}

// fill completes the row when all turns are over.
func (r *throughputRow) fill(bare, got *load) {
	r.Bare, r.Pagetally, r.Ratio = bare.rate(), got.rate(), got.rate()/bare.rate()
	r.BareP50, r.BareP99 = bare.percentile(50), bare.percentile(99)
	r.P50, r.P99 = got.percentile(50), got.percentile(99)
	r.Acknowledged, r.Refused, r.Unanswered = got.Acknowledged, got.Refused+got.Dropped, got.Unanswered
}

// microsEach shares a time among n, in microseconds.
func microsEach(d time.Duration, n int64) float64 { return d.Seconds() * 1e6 / float64(max(n, 1)) }

// check fails when a count is wrong. A missed aim is printed, not an error: machines differ.
func (r *result) check() error {
	for _, row := range r.Throughput {
		if row.Lost != 0 || row.Extra != 0 {
			return fmt.Errorf("%d connections: %d acknowledged events are missing, %d too many are counted", row.Connections, row.Lost, row.Extra)
		}
	}
	if d := r.Delivery; d != nil && d.Lost != 0 {
		return fmt.Errorf("delivery: %d of %d events are missing", d.Lost, d.Events)
	}
	return nil
}

func (r *result) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

func (r *result) writeTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "POST /api/event, %d cores, %s, %g s of load for each server and row, client, server and engine on the same cores\n\n", r.Cores, r.Go, r.Seconds)
	fmt.Fprintln(t, "connections\tbare/s\tpagetally/s\tratio\tbare p50\tp99\tpagetally p50\tp99 ms\tdrained s\trefused\tlost\tCPU µs/request: bare\tclient\tpagetally\tengine\t")
	for _, row := range r.Throughput {
		fmt.Fprintf(t, "%d\t%.0f\t%.0f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%.2f\t%d\t%d\t%.1f\t%.1f\t%.1f\t%.1f\t\n", row.Connections, row.Bare, row.Pagetally, row.Ratio,
			row.BareP50, row.BareP99, row.P50, row.P99, row.DrainSeconds, row.Refused, row.Lost, row.BareCPU, row.ClientCPU, row.ServerCPU, row.EngineCPU)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return r.writeAims(w)
}

// writeAims prints what stands beside an aim.
func (r *result) writeAims(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t)
	if n := len(r.Throughput); n > 0 {
		last := r.Throughput[n-1]
		aim(t, fmt.Sprintf("ratio at %d connections", last.Connections), fmt.Sprintf("%.2f", last.Ratio), fmt.Sprintf("at least %g", aimRatio), last.Ratio >= aimRatio)
	}
	own := float64(r.Memory.Pagetally) / megabyte
	aim(t, "resident memory of pagetally", fmt.Sprintf("%.0f MB", own), fmt.Sprintf("under %d MB", aimMemory), own < aimMemory)
	fmt.Fprintf(t, "resident memory of the engine\t%.0f MB\t\t\n", float64(r.Memory.Engine)/megabyte)
	if v := r.Visibility; v != nil {
		aim(t, fmt.Sprintf("sent to visible at %.0f/s, p50 and p99 of %d", v.Rate, v.Probes), fmt.Sprintf("%.2f s, %.2f s", v.P50, v.P99),
			fmt.Sprintf("p99 under %g s", aimVisible), v.P99 < aimVisible)
	}
	for _, v := range r.Realtime {
		aim(t, fmt.Sprintf("acknowledged to in /v1/realtime at %.0f/s, Redis %s, p50 and p99 of %d", v.Rate, v.Redis, v.Probes), fmt.Sprintf("%.2f s, %.2f s", v.P50, v.P99),
			fmt.Sprintf("p99 under %g s", aimRealtime), v.P99 < aimRealtime)
	}
	if c := r.Recent; c != nil {
		ratio := c.P99 / c.BareP99
		aim(t, fmt.Sprintf("mode=recent at %.0f/s on %d connections, p50 and p99 of %d", c.Rate, c.Connections, c.Answers),
			fmt.Sprintf("%.2f ms, %.2f ms, %.1f times a bare GET's %.2f ms, %.2f ms", c.P50, c.P99, ratio, c.BareP50, c.BareP99),
			fmt.Sprintf("p99 at most %g times", aimRecent), ratio <= aimRecent)
	}
	if c := r.Cost; c != nil {
		aim(t, fmt.Sprintf("hot counts and claims in Redis, events with ids, %d connections", c.Connections),
			fmt.Sprintf("%.0f/s, %.2f of %.0f/s without; %.1f and %.1f µs of CPU a request", c.With, c.With/c.Without, c.Without, c.WithCPU, c.WithoutCPU),
			fmt.Sprintf("at least %g", aimCost), c.With/c.Without >= aimCost)
	}
	if d := r.Delivery; d != nil {
		ratio := d.PerSecond / d.RawPerSecond
		aim(t, fmt.Sprintf("delivery of %d events in %d batches", d.Events, d.Batches),
			fmt.Sprintf("%.0f rows/s, %.2f of a raw insert's %.0f", d.PerSecond, ratio, d.RawPerSecond), fmt.Sprintf("at least %g", aimDelivery), ratio >= aimDelivery)
		fmt.Fprintf(t, "the same rows into the events table alone\t%.0f rows/s\t\t\n", d.BarePerSecond)
		fmt.Fprintf(t, "CPU time a row\t%.1f µs, a raw insert's %.1f µs, into the events alone %.1f µs\t\t\n", d.CPU, d.RawCPU, d.BareCPU)
	}
	return t.Flush()
}

func aim(w io.Writer, what, measured, wanted string, reached bool) {
	verdict := "missed"
	if reached {
		verdict = "reached"
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", what, measured, wanted, verdict)
}
