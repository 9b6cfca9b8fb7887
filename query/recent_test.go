package query

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/pagetally/pagetally/aggregate/redistest"
	"github.com/pagetally/pagetally/schema"
)

// recentRig is a server whose Redis is written by the test, at 12:07 with the cut of new bases at 12:00.
type recentRig struct {
	*tables
	server *Server
	redis  redis.UniversalClient
}

// eachRecent runs a test on both kinds of Redis.
func eachRecent(t *testing.T, test func(t *testing.T, r *recentRig)) {
	t.Run("embedded", func(t *testing.T) {
		client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
		t.Cleanup(func() { _ = client.Close() })
		test(t, newRecentRig(t, client))
	})
	t.Run("server", func(t *testing.T) { test(t, newRecentRig(t, redistest.Start(t).Client())) })
}

func newRecentRig(t *testing.T, client redis.UniversalClient) *recentRig {
	t.Helper()
	s := newTables(t)
	s.now = at("2026-01-15T12:07:00Z")
	server, err := New(Config{Store: s.store, Sites: oneSite("UTC"), Hot: NewHot(client), Now: func() time.Time { return s.now }})
	if err != nil {
		t.Fatal(err)
	}
	r := &recentRig{s, server, client}
	t.Cleanup(server.StopReading)
	r.set(schema.HotCompleteKey(s.site), "0")
	return r
}

func (r *recentRig) set(key, value string) {
	r.t.Helper()
	if err := r.redis.Set(r.t.Context(), key, value, 0).Err(); err != nil {
		r.t.Fatal(err)
	}
}

// hot adds to a minute as delivery does.
func (r *recentRig) hot(when, path string, n int64) {
	r.t.Helper()
	minute := at(when).Unix() / 60
	for key, fields := range map[string][]string{
		schema.HotMinuteKey(r.site, minute): {schema.HotViews, schema.HotEvents},
		schema.HotPagesKey(r.site, minute):  {schema.HotViews, path},
	} {
		for _, field := range fields {
			if err := r.redis.HIncrBy(r.t.Context(), key, field, n).Err(); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

// ask asks for a count in the words of a URL's query.
func (r *recentRig) ask(params string) CountResult {
	r.t.Helper()
	values, err := url.ParseQuery(params)
	if err != nil {
		r.t.Fatal(err)
	}
	values.Set("site", r.site)
	request, err := Parse(Count, values, oneSite("UTC"), r.now)
	if err != nil {
		r.t.Fatalf("%s: %v", params, err)
	}
	got, err := r.server.Count(context.Background(), request)
	if err != nil {
		r.t.Fatalf("%s: %v", params, err)
	}
	return got
}

// require asks and checks views and source.
func (r *recentRig) require(params string, views int64, source string) CountResult {
	r.t.Helper()
	got := r.ask(params)
	if *got.Views != views || got.Meta.Source != source || (got.Meta.Reason == "") != (source == sourceRecent) {
		r.t.Errorf("%s: %d views from %s (%q), want %d from %s", params, *got.Views, got.Meta.Source, got.Meta.Reason, views, source)
	}
	return got
}

// later lets time pass, once nothing is read beside an answer any more.
func (r *recentRig) later(d time.Duration) {
	r.server.StopReading()
	r.now = r.now.Add(d)
}

// TestRecentIsBaseAndIncrements: what happened before the cut is the base's, what happened since is Redis', and nothing is in both.
func TestRecentIsBaseAndIncrements(t *testing.T) {
	eachRecent(t, func(t *testing.T, r *recentRig) {
		r.insert(view("2025-11-01T10:00:00Z", "/a"), view("2026-01-15T11:59:59.999Z", "/a"), view("2026-01-15T11:00:00Z", "/b"),
			view("2026-01-15T12:00:00Z", "/a"))
		r.hot("2026-01-15T11:59:00Z", "/a", 1) // before the cut: the base has it
		r.hot("2026-01-15T12:00:00Z", "/a", 1) // in the tables too
		r.hot("2026-01-15T12:06:00Z", "/a", 4)
		r.hot("2026-01-15T12:11:00Z", "/b", 2) // of a clock that is ahead

		for params, want := range map[string]int64{
			"path=/a": 7, "path=/b": 3, "path=/c": 0, "": 10, "name=pageview": 10, "period=day": 9, "period=day&path=/a": 6,
			"from=2026-01-01": 9, "from=2026-01-15T12:00:00Z&path=/a": 5, "from=2026-01-15T11:30:00Z&to=2026-01-15T12:09:00Z": 6,
		} {
			got := r.require("mode=recent&"+params, want, sourceRecent)
			if got.Visitors != nil || got.Meta.Exact[Views] || got.Meta.ErrorBound[Views] <= 0 || got.Meta.Base == nil {
				t.Errorf("%s: answer %+v, want views alone, not exact, with a bound and a base", params, got)
			}
			r.require("mode=auto&metrics=views&"+params, want, sourceRecent)
		}
		got := r.ask("mode=recent&metrics=events,views")
		if *got.Events != 10 || *got.Views != 10 || got.Meta.Source != sourceRecent {
			t.Errorf("%d events and %d views from %s, want 10 and 10, recent", *got.Events, *got.Views, got.Meta.Source)
		}
		if got := r.ask("mode=recent").Meta; *got.Base.Views != 3 || got.Base.Before != "2026-01-15T12:00:00Z" || !got.Partial {
			t.Errorf("base %d before %s, want 3 before noon", *got.Base.Views, got.Base.Before)
		}
	})
}

// TestRecentRefusesWhatRedisDoesNotKnow: the answer is exact, and says why.
func TestRecentRefusesWhatRedisDoesNotKnow(t *testing.T) {
	eachRecent(t, func(t *testing.T, r *recentRig) {
		r.insert(view("2026-01-15T11:00:00Z", "/a"), view("2026-01-14T11:00:00Z", "/a"), view("2026-01-15T12:06:30Z", "/a"))
		r.hot("2026-01-15T12:06:00Z", "/a", 50) // so that a recent answer would be another
		for params, want := range map[string]int64{
			"metrics=views,visitors": 3, "metrics=views,events&path=/a": 3, "metrics=views,events&name=pageview": 3,
			"period=24h": 2, "to=2026-01-14&from=2026-01-14": 1, "from=2026-01-15T12:06:00Z": 1, "from=2026-01-15T12:01:00Z&path=/a": 1,
			"from=2026-01-15&to=2026-01-15T12:07:30Z": 2,
		} {
			got := r.require("mode=recent&"+params, want, sourceExact)
			if !got.Meta.Exact[Views] {
				t.Errorf("%s: not exact", params)
			}
		}
		if got := r.require("mode=auto", 3, sourceExact); got.Visitors == nil {
			t.Error("auto leaves visitors out")
		}
		if got := r.ask("mode=exact").Meta; got.Source != sourceExact || got.Reason != "" {
			t.Errorf("exact says %q, %q", got.Source, got.Reason)
		}
		r.require("mode=recent&path=/a", 52, sourceRecent)
		r.set(schema.HotCompleteKey(r.site), "999999999")
		r.require("mode=recent&path=/a", 3, sourceExact)
		r.redis.Del(t.Context(), schema.HotCompleteKey(r.site))
		r.require("mode=recent&path=/a", 3, sourceExact)
	})
}

func TestRecentRefusesPagesThatAreCut(t *testing.T) {
	eachRecent(t, func(t *testing.T, r *recentRig) {
		r.hot("2026-01-15T12:06:00Z", "/a", 3)
		r.require("mode=recent&path=/a", 3, sourceRecent)
		r.redis.HSet(t.Context(), schema.HotPagesKey(r.site, r.now.Unix()/60-1), schema.HotCut, 1)
		r.require("mode=recent&path=/a", 0, sourceExact)
		r.require("mode=recent", 3, sourceRecent)
	})
}

// TestRecentIsNeverBelowTheTables: Redis lost minutes without knowing.
func TestRecentIsNeverBelowTheTables(t *testing.T) {
	eachRecent(t, func(t *testing.T, r *recentRig) {
		r.insert(view("2026-01-15T11:00:00Z", "/a"), view("2026-01-15T12:01:00Z", "/a"), view("2026-01-15T12:02:00Z", "/a"))
		r.require("mode=recent&path=/a", 3, sourceRecent)
		r.hot("2026-01-15T12:06:00Z", "/a", 1)
		r.require("mode=recent&path=/a", 3, sourceRecent)
		r.hot("2026-01-15T12:06:00Z", "/a", 5)
		r.require("mode=recent&path=/a", 7, sourceRecent)
	})
}

// TestBaseIsRenewed: an event that comes late, from before the cut, is in the next base; the one that is still fresh does not change.
func TestBaseIsRenewed(t *testing.T) {
	eachRecent(t, func(t *testing.T, r *recentRig) {
		r.hot("2026-01-15T12:06:00Z", "/a", 1)
		before := r.require("mode=recent&path=/a", 1, sourceRecent)
		r.insert(view("2026-01-15T11:00:00Z", "/a"))
		r.require("mode=recent&path=/a", 1, sourceRecent)
		r.later(baseFresh)
		r.require("mode=recent&path=/a", 1, sourceRecent) // the new one is read beside this answer
		r.server.StopReading()
		after := r.require("mode=recent&path=/a", 2, sourceRecent)
		if after.Meta.AsOf <= before.Meta.AsOf {
			t.Errorf("as of %s, then %s", before.Meta.AsOf, after.Meta.AsOf)
		}
		r.insert(view("2026-01-15T11:00:00Z", "/a"))
		r.later(baseStale)
		r.require("mode=recent&path=/a", 3, sourceRecent) // this answer waited for it
		r.later(10 * time.Minute)                         // and the cut goes on: at 12:18 it is at 12:00, at 12:20 later
		r.insert(view("2026-01-15T12:06:10Z", "/a"))      // which is the one in Redis
		r.later(2 * time.Minute)
		got := r.require("mode=recent&path=/a", 3, sourceRecent)
		if got.Meta.Base.Before != "2026-01-15T12:15:00Z" || *got.Meta.Base.Views != 3 {
			t.Errorf("base %d before %s, want 3 before 12:15", *got.Meta.Base.Views, got.Meta.Base.Before)
		}
	})
}

// TestRecentOutlivesTheTables: without ClickHouse the last base is good as long as Redis holds every minute since its cut, and says how
// old it is.
func TestRecentOutlivesTheTables(t *testing.T) {
	eachRecent(t, func(t *testing.T, r *recentRig) {
		r.insert(view("2026-01-15T11:00:00Z", "/a"))
		r.require("mode=recent&path=/a", 1, sourceRecent)
		asOf := r.ask("mode=recent&path=/a").Meta.AsOf
		working := r.server.recent.store.cfg.Conn
		down := engine.Options("query_test")
		down.Addr = []string{"127.0.0.1:1"}
		r.server.recent.store.cfg.Conn = openOptions(t, down)
		for range 2 {
			r.later(10 * time.Minute)
			r.hot(r.now.Format(time.RFC3339), "/a", 1)
			r.ask("mode=recent&path=/a")
		}
		if got := r.require("mode=recent&path=/a", 3, sourceRecent); got.Meta.AsOf != asOf {
			t.Errorf("as of %s, want %s", got.Meta.AsOf, asOf)
		}
		r.later(5 * time.Minute)
		values := url.Values{"site": {r.site}, "mode": {"recent"}, "path": {"/a"}}
		request, err := Parse(Count, values, oneSite("UTC"), r.now)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.server.Count(t.Context(), request); err == nil {
			t.Errorf("answer %+v from minutes that Redis does not hold any more", got)
		}
		r.server.StopReading()
		r.server.recent.store.cfg.Conn = working
		r.insert(view("2026-01-15T12:17:00Z", "/a"), view("2026-01-15T12:27:00Z", "/a"))
		r.require("mode=recent&path=/a", 3, sourceRecent)
	})
}

func TestRecentWithoutRedis(t *testing.T) {
	server := redistest.Start(t)
	r := newRecentRig(t, server.Client())
	r.insert(view("2026-01-15T11:00:00Z", "/a"))
	r.require("mode=recent&path=/a", 1, sourceRecent)
	server.Kill()
	r.require("mode=recent&path=/a", 1, sourceExact)
	r.require("mode=auto&metrics=views&path=/a", 1, sourceExact)
	server.Restart() // empty
	r.require("mode=recent&path=/a", 1, sourceExact)
	r.set(schema.HotCompleteKey(r.site), "0")
	r.require("mode=recent&path=/a", 1, sourceRecent)

	server.Pause()
	defer server.Resume()
	r.require("mode=recent&path=/a", 1, sourceExact)
}
