package chaos

import (
	"fmt"
	"maps"
	"slices"
)

// agents are browsers, each with a label. A sender of beacons is one visitor for each of them.
var agents = func() map[string]string {
	list := map[string]string{}
	for v := 110; v < 140; v++ {
		list[fmt.Sprintf("firefox-%d", v)] = fmt.Sprintf("Mozilla/5.0 (X11; Linux x86_64; rv:%d.0) Gecko/20100101 Firefox/%d.0", v, v)
		list[fmt.Sprintf("chrome-%d", v)] = fmt.Sprintf(
			"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.0.0 Safari/537.36", v)
	}
	return list
}()

var agentLabels = slices.Sorted(maps.Keys(agents))

func (c *client) label() string { return agentLabels[c.random.IntN(len(agentLabels))] }

func (c *client) agent() string { return agents[c.label()] }

// newEvent is the next event of the client: its id is its own, its page one of a few.
func (c *client) newEvent(kind, who string) event {
	c.serial++
	name := "pageview"
	if c.random.IntN(8) == 0 {
		name = "signup"
	}
	return event{
		id:   fmt.Sprintf("%s-%d", c.name, c.serial),
		page: page{name, fmt.Sprintf("/%s/%d", kind, c.random.IntN(12))},
		who:  who, n: 1,
	}
}

// beacon is an event in Plausible's form, as a tracker sends it.
func (c *client) beacon() *request {
	label := c.label()
	e := c.newEvent("beacon", label)
	return &request{
		path: "/api/event", headers: browserHeaders(agents[label]), events: []event{e}, items: 1,
		body: encode(map[string]any{
			"n": e.page.name, "u": "https://www." + site + e.page.path + "#part", "d": site, "id": e.id,
			"title": "Page " + e.page.path, "p": map[string]string{"who": label, "id": e.id},
		}),
	}
}

// keyedBatch is an array of a job that speaks for others: addresses, agents, and signed deltas.
func (c *client) keyedBatch() *request {
	return c.batch("keyed", func(e *event, item map[string]any) {
		if e.n = int64(c.random.IntN(12)) - 4; e.n <= 0 {
			e.n-- // no delta is 0
		}
		item["n"] = e.n
		if c.random.IntN(10) == 0 {
			e.who = "" // a job's own count, of nobody
			return
		}
		label, ip := c.label(), fmt.Sprintf("203.0.113.%d", c.random.IntN(4))
		e.who = label + "@" + ip
		item["user_agent"], item["ip"] = agents[label], ip
	})
}

// localBatch is an array without a key from this machine, which may name what a key may; what it leaves out is the connection's.
func (c *client) localBatch() *request {
	label := c.label()
	r := c.batch("local", func(e *event, item map[string]any) {
		e.who = label
		if c.random.IntN(4) == 0 {
			e.who = label + "@198.51.100.7"
			item["ip"], item["user_agent"] = "198.51.100.7", agents[label]
		}
	})
	r.headers["User-Agent"] = agents[label]
	return r
}

// idempotentBatch has no ids of its own: the server makes them from the key of the request.
func (c *client) idempotentBatch() *request {
	c.serial++
	key := fmt.Sprintf("%s-request-%d", c.name, c.serial)
	r := c.batch("idempotent", func(e *event, item map[string]any) {
		delete(item, "id")
		label := c.label()
		e.who = label + "@192.0.2.1"
		item["user_agent"], item["ip"] = agents[label], "192.0.2.1"
	})
	r.headers["Idempotency-Key"] = key
	return r
}

// batch is an array of POST /v1/events; shape completes each item. Some arrays hold an item twice, unless items have no ids.
func (c *client) batch(kind string, shape func(*event, map[string]any)) *request {
	r := &request{path: "/v1/events", headers: map[string]string{"Content-Type": "application/json"}}
	if c.key != "" {
		r.headers["Authorization"] = "Bearer " + c.key
	}
	if c.random.IntN(20) == 0 {
		r.path += "?ack=stored"
	}
	var items []map[string]any
	for range 1 + c.random.IntN(40) {
		e := c.newEvent(kind, "")
		item := map[string]any{"site": site, "name": e.page.name, "path": e.page.path, "id": e.id, "title": "Page " + e.page.path}
		shape(&e, item)
		if e.who != "" {
			item["props"] = map[string]string{"who": e.who, "id": e.id}
		}
		r.events = append(r.events, e)
		items = append(items, item)
	}
	if items[0]["id"] != nil && c.random.IntN(6) == 0 {
		items = append(items, items[0])
	}
	r.items, r.body = len(items), encode(items)
	return r
}
