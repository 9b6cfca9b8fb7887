package aggregate

import (
	"context"
	"fmt"
	"math"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pagetally/pagetally/aggregate/redistest"
	"github.com/pagetally/pagetally/schema"
)

// hotDriftMost is how far a closed minute may be off: |hot - exact| / exact.
const hotDriftMost = 0.005

var hotDriftSites = []string{"example.com", "other.example"}

// mixedLoad journals events of all kinds for a time: views of now and of the last 40 minutes, many times the same id, custom events and
// pings, signed counts.
func (r *rig) mixedLoad(during time.Duration) {
	r.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for begun, i := time.Now(), 0; time.Since(begun) < during; i++ {
		<-tick.C
		events := make([]schema.Event, 20)
		for j := range events {
			e := r.event()
			e.Site = hotDriftSites[j%2]
			switch j % 10 {
			case 0, 1, 2:
				e.TS = e.ReceivedAt
			case 3:
				e.EventID = fmt.Sprint("id-", r.random.IntN(1+i*5))
			case 4:
				e.Name = "signup"
			case 5:
				e.Name = schema.Engagement
			case 6:
				e.N = 1 + r.random.Int64N(20)
			case 7:
				e.N = -1
			}
			events[j] = e
		}
		r.append(events...)
		if i%25 == 24 {
			r.seal()
		}
	}
	r.seal()
}

// requireHotWithin compares every closed minute, its sums and its pages, with the events.
func (r *rig) requireHotWithin(client redis.UniversalClient, most float64) (compared int, worst float64) {
	r.t.Helper()
	now := time.Now().Unix() / 60
	for _, site := range hotDriftSites {
		for m := now - schema.HotMinutes + hotOpenMinutes; m <= now-hotOpenMinutes; m++ {
			where := fmt.Sprintf(` FROM events WHERE site = '%s' AND name = 'pageview' AND intDiv(toUnixTimestamp(ts), 60) = %d`, site, m)
			exact := r.sums(`SELECT path_key, sum(n)` + where + ` GROUP BY 1`)
			hot := client.HGetAll(r.t.Context(), schema.HotMinuteKey(site, m)).Val()
			pages := client.HGetAll(r.t.Context(), schema.HotPagesKey(site, m)).Val()
			var sum, off int64
			for path, n := range exact {
				sum += n
				off += diff(n, hotNumber(hot[schema.HotPath+path]))
				if m > now-schema.HotPageMinutes {
					off += diff(n, hotNumber(pages[path]))
				}
			}
			off = max(off, diff(sum, hotNumber(hot[schema.HotViews])))
			if sum == 0 && off == 0 {
				continue
			}
			compared++
			drift := float64(off) / math.Max(math.Abs(float64(sum)), 1)
			worst = math.Max(worst, drift)
			if drift > most {
				r.t.Errorf("%s, %d minutes ago: hot views are off by %d of %d", site, now-m, off, sum)
			}
		}
	}
	if compared == 0 {
		r.t.Error("no minute was compared")
	}
	return compared, worst
}

func diff(a, b int64) int64 { return max(a-b, b-a) }

func driftLoad() time.Duration {
	if os.Getenv("PAGETALLY_TORTURE") != "" {
		return 10 * time.Minute
	}
	return 8 * time.Second
}

// TestHotDriftWithoutFaults: nothing repairs here, so that what is compared is what delivery counted.
func TestHotDriftWithoutFaults(t *testing.T) {
	r := newRig(t)
	client := redistest.Start(t).Client()
	h := startHot(t, client)
	_, stop := r.start(func(c *Config) { c.Hot = h })
	defer stop()
	r.mixedLoad(driftLoad())
	r.awaitHot(h)
	compared, worst := r.requireHotWithin(client, hotDriftMost)
	t.Logf("%d minutes compared, the worst is off by %.4f", compared, worst)
}

// TestHotDriftWhenRedisDies: Redis is killed under load and comes back empty. The reconciler brings every closed minute back to the bound
// within the rounds of it that need two looks, and until then no reader takes the counts for complete.
func TestHotDriftWhenRedisDies(t *testing.T) {
	r := newRig(t)
	server := redistest.Start(t)
	client := server.Client()
	h := startHot(t, client)
	c, err := NewReconciler(ReconcilerConfig{Client: client, Conn: r.conn, Every: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	run(t, c.Run)
	_, stop := r.start(func(c *Config) { c.Hot = h })
	defer stop()
	during := driftLoad()
	var killing sync.WaitGroup
	killing.Go(func() {
		time.Sleep(during / 2)
		server.Kill()
		time.Sleep(during / 8)
		server.Restart()
	})
	r.mixedLoad(during)
	killing.Wait()
	back := time.Now()
	r.awaitHot(h)
	for _, site := range hotDriftSites {
		from, err := client.Get(t.Context(), schema.HotCompleteKey(site)).Int64()
		if err != nil && err != redis.Nil {
			t.Fatal(err)
		}
		if err == nil && during < time.Minute && from <= back.Unix()/60 {
			t.Errorf("%s is said to be complete from minute %d, Redis came back empty in %d", site, from, back.Unix()/60)
		}
	}
	for deadline := back.Add(5 * time.Minute); !r.closedMinutesAgree(client); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the minutes were not repaired")
		}
	}
	compared, worst := r.requireHotWithin(client, hotDriftMost)
	t.Logf("%d minutes compared %s after Redis was back, the worst is off by %.4f", compared, time.Since(back).Round(time.Second), worst)
}

// closedMinutesAgree compares the sums of all closed minutes.
func (r *rig) closedMinutesAgree(client redis.UniversalClient) bool {
	now := time.Now().Unix() / 60
	for _, site := range hotDriftSites {
		exact := r.sums(fmt.Sprintf(`SELECT toString(intDiv(toUnixTimestamp(ts), 60)), sum(n) FROM events
			WHERE site = '%s' AND name = 'pageview' GROUP BY 1`, site))
		for m := now - schema.HotMinutes + hotOpenMinutes; m <= now-hotOpenMinutes; m++ {
			if hotNumber(client.HGet(r.t.Context(), schema.HotMinuteKey(site, m), schema.HotViews).Val()) != exact[fmt.Sprint(m)] {
				return false
			}
		}
	}
	return true
}

// awaitHot waits until all is delivered, and written to Redis.
func (r *rig) awaitHot(h *Hot) {
	r.t.Helper()
	r.eventually("delivery", func() bool { return r.journal.Stats().SealedSegments == 0 && len(h.minutes) == 0 && h.Ready() == nil })
	ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
	defer cancel()
	if err := pause(ctx, 300*time.Millisecond); err != nil { // for the pipeline that is on its way
		r.t.Fatal(err)
	}
}
