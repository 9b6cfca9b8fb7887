package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/go-units"
	"golang.org/x/sys/unix"

	"github.com/pagetally/pagetally/aggregate"
	"github.com/pagetally/pagetally/ingest/journal"
	"github.com/pagetally/pagetally/schema/embedded"
)

func checkEnvironment(environ []string) finding {
	if unknown := unknownEnv(environ); len(unknown) > 0 {
		return warned("environment", "correct or unset them; `pagetally --help` lists the names", "not a setting: %s", strings.Join(unknown, ", "))
	}
	return passed("environment", "pagetally %s", version)
}

func checkDataFolder(s *Settings) finding {
	const check = "data folder"
	info, err := os.Stat(s.Data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return passed(check, "%s is not there yet; the server makes it", s.Data)
	case err != nil:
		return failed(check, "give this user access", "%v", err)
	case !info.IsDir():
		return failed(check, "name a folder with --data", "%s is no folder", s.Data)
	case unix.Access(s.Data, unix.W_OK) != nil:
		return failed(check, "give this user the right to write there", "%s is not writable", s.Data)
	case info.Mode().Perm()&0o007 != 0:
		return warned(check, "chmod 0700: it holds salts and passwords", "%s is open to other users (%#o)", s.Data, info.Mode().Perm())
	}
	return passed(check, "%s", s.Data)
}

func checkFreeDisk(s *Settings) finding {
	const check = "disk"
	var st unix.Statfs_t
	if err := unix.Statfs(nearestFolder(s.Data), &st); err != nil {
		return warned(check, "watch it yourself", "cannot be seen: %v", err)
	}
	block := uint64(st.Bsize) //nolint:gosec // a block size is positive
	free, total := st.Bavail*block, st.Blocks*block
	f := judgeDisk(check, "the data folder's disk", free, total)
	if f.Verdict == ok && free < uint64(s.JournalMax) {
		return warned(check, "lower --journal-max: the disk must not fill before the journal says 503", "%s, less than --journal-max %s", f.Seen, s.JournalMax)
	}
	return f
}

// nearestFolder is path, or the first of its parents that exists.
func nearestFolder(path string) string {
	for {
		if _, err := os.Stat(path); err == nil {
			return path
		}
		parent := filepath.Dir(path)
		if parent == path {
			return path
		}
		path = parent
	}
}

// oldestSealed is the age at which a segment waits longer than any healthy delivery lets it.
const oldestSealed = 5 * time.Minute

func checkJournal(s *Settings) finding {
	const check = "journal"
	dir := s.path(journalDir)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return passed(check, "none yet")
	}
	sealed, err := journal.List(dir, journal.StateSealed)
	if err != nil {
		return failed(check, "give this user access; if a file is damaged, see `pagetally journal list`", "%v", err)
	}
	quarantined, err := journal.List(dir, journal.StateQuarantined)
	if err != nil {
		return failed(check, "give this user access", "%v", err)
	}
	if n := len(quarantined); n > 0 {
		return warned(check, "look at them with `pagetally journal list`, then retry, export or drop", "%d segments are in quarantine and are not counted", n)
	}
	var bytes int64
	for _, segment := range sealed {
		bytes += segment.Bytes
	}
	waiting := fmt.Sprintf("%d segments wait, %s", len(sealed), units.BytesSize(float64(bytes)))
	if len(sealed) > 0 && time.Since(sealed[0].Created) > oldestSealed {
		return warned(check, "start the server, or see why ClickHouse takes nothing", "%s, the oldest for %s", waiting, time.Since(sealed[0].Created).Round(time.Second))
	}
	return passed(check, "%s", waiting)
}

func checkLibrary(s *Settings) finding {
	path, err := embedded.Locate(s.EngineLib)
	if err != nil {
		return failed("engine", "npm ci --prefix deployments/embedded, or ./fetch-engine of a release", "%v", err)
	}
	return passed("engine", "%s", path)
}

// checkSalts looks for the salts of today and tomorrow, without which visitors cannot be told apart and events are refused.
func checkSalts(s *Settings, now time.Time) finding {
	const check = "salts"
	text, err := os.ReadFile(s.path(saltsFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return passed(check, "none yet; the server makes them")
	case err != nil:
		return failed(check, "give this user access", "%v", err)
	}
	info, err := os.Stat(s.path(saltsFile))
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		return warned(check, "chmod 0600: with a salt, addresses can be tried against visitors", "%s is open to other users", s.path(saltsFile))
	}
	for _, day := range []time.Time{now, now.AddDate(0, 0, 1)} {
		if date := day.UTC().Format(time.DateOnly); !strings.Contains(string(text), date) {
			return warned(check, "normal while no server runs; if one does, see its log and the disk", "none for %s", date)
		}
	}
	return passed(check, "made for today and tomorrow")
}

// checkRedis sees whether Redis answers and is fit for claims.
func checkRedis(ctx context.Context, s *Settings) finding {
	const name = "redis"
	store, err := openRedis(s, slog.New(slog.DiscardHandler))
	if err != nil {
		return failed(name, "mend --redis", "%v", err)
	}
	defer func() { _ = store.Close() }()
	ctx, cancel := context.WithTimeout(ctx, 2*(redisDial+redisCall))
	defer cancel()
	switch err := aggregate.CheckRedis(ctx, store); {
	case errors.Is(err, aggregate.ErrRedisUnfit):
		return failed(name, "set maxmemory-policy noeviction, and use Redis 7 or later: an event whose id was forgotten may count twice", "%v", err)
	case err != nil:
		return warned(name, "see that the server runs and that --redis and its password are right: events are counted meanwhile, without the last hour", "%v", err)
	}
	return passed(name, "answers and evicts nothing")
}
