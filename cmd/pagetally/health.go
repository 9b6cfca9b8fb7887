package main

import "github.com/gofiber/fiber/v2"

// check is one part of the server that /readyz names. Ready returns nil, or why the part cannot do its work now.
type check struct {
	name  string
	ready func() error
	// needed says that the server cannot take events without the part. ClickHouse and delivery are not needed: the
	// journal holds what they will count.
	needed bool
	// cache says that without the part the same answers come from elsewhere: it makes the server no less ready.
	cache bool
}

// readiness is the body of /readyz.
type readiness struct {
	Ready bool                 `json:"ready"` // every part works but for caches
	Parts map[string]partState `json:"parts"`
}

type partState struct {
	Ready  bool   `json:"ready"`
	Needed bool   `json:"needed_to_accept"`
	Reason string `json:"reason,omitempty"`
}

// registerHealth adds /healthz, which answers while the process serves, and /readyz, which answers 503 and names the part
// when one is not ready. `/readyz?for=ingest` asks only about the parts without which no event can be taken: what a
// load balancer in front of several nodes wants to know.
func registerHealth(app *fiber.App, checks []check) {
	app.Get("/healthz", func(c *fiber.Ctx) error {
		return c.JSON(fiber.Map{"status": "ok", "version": version})
	})
	app.Get("/readyz", func(c *fiber.Ctx) error {
		ingestOnly := c.Query("for") == "ingest"
		r := readiness{Ready: true, Parts: make(map[string]partState, len(checks))}
		for _, part := range checks {
			state := partState{Ready: true, Needed: part.needed}
			if err := part.ready(); err != nil {
				state.Ready, state.Reason = false, err.Error()
				r.Ready = r.Ready && (part.cache || ingestOnly && !part.needed)
			}
			r.Parts[part.name] = state
		}
		if !r.Ready {
			c.Status(fiber.StatusServiceUnavailable)
		}
		return c.JSON(r)
	})
}
