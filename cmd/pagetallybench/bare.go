//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/gofiber/fiber/v2"
)

// bareCommand is the yardstick: a Fiber app that answers 202 and does nothing.
type bareCommand struct{}

// Run serves until ctx ends.
func (bareCommand) Run(ctx context.Context) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Post("/api/event", func(c *fiber.Ctx) error { return c.Status(fiber.StatusAccepted).SendString("ok") })
	context.AfterFunc(ctx, func() { _ = app.Shutdown() })
	fmt.Printf("bare server listens on http://%s and counts nothing\n", ln.Addr())
	return app.Listener(ln)
}

// startBare runs the yardstick in a process of its own.
func startBare(ctx context.Context, dir string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startProcess(ctx, filepath.Join(dir, "bare.log"), self, "bare")
}
