package aggregate

import (
	"context"
	"errors"
)

// untilDone repeats what until it succeeds or ctx ends, whose error it then returns. It is for steps that may be repeated and that
// cannot be done without: the server, the disk or an operator will make them possible again.
func (d *Delivery) untilDone(ctx context.Context, what string, f func(context.Context) error) error {
	for attempt := 1; ; attempt++ {
		err := f(ctx)
		if err == nil {
			d.recovered()
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		d.degraded(what, err)
		if err := d.pause(ctx, d.backoff(attempt)); err != nil {
			return err
		}
	}
}

// report logs the failure of an INSERT, the first of a row loudly.
func (d *Delivery) report(err error, b *Batch) {
	d.degraded("inserting batch "+b.ID.String()+" ("+classify(err).String()+")", err)
}

func (d *Delivery) degraded(what string, err error) {
	d.metrics.retries.Inc()
	state := what + ": " + err.Error()
	if previous := d.state.Swap(&state); previous == nil || *previous == "starting" {
		d.log.Warn("delivery is waiting", "for", what, "error", err)
		return
	}
	d.log.Debug("delivery is still waiting", "for", what, "error", err)
}

func (d *Delivery) recovered() {
	if previous := d.state.Swap(nil); previous != nil {
		d.log.Info("delivery is working", "waited_for", *previous)
	}
}

// Ready returns nil while delivery works, else what it is waiting for.
func (d *Delivery) Ready() error {
	if state := d.state.Load(); state != nil {
		return errors.New(*state)
	}
	return nil
}
