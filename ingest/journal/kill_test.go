package journal_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/pagetally/pagetally/ingest/journal"
)

// victimDir names the directory in which the test binary, run again, appends until it is killed.
const victimDir = "PAGETALLY_JOURNAL_VICTIM"

// beVictim prints each payload once it is acknowledged.
func beVictim(dir string) {
	j, err := journal.Open(journal.Options{Dir: dir, SealAge: 10 * time.Millisecond})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := 0; ; i++ {
				payload := fmt.Sprintf("%d-%x", os.Getpid(), rand.Uint64())
				if _, err := j.Append(context.Background(), []byte(payload), 1+i%2); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				fmt.Println(payload)
			}
		})
	}
	wg.Wait()
}

// Whatever was acknowledged before a kill -9 is there once, round after round in the same directory.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	acked := map[string]bool{}
	for range 5 {
		for _, payload := range killedRun(t, dir) {
			acked[payload] = true
		}
	}
	j := open(t, journal.Options{Dir: dir})
	got := map[string]int{}
	for _, f := range readAll(t, j, journal.StateSealed) {
		got[f.Payload]++
	}
	for payload, n := range got {
		if n != 1 {
			t.Errorf("%s is there %d times", payload, n)
		}
	}
	missing := 0
	for payload := range acked {
		if got[payload] == 0 {
			missing++
		}
	}
	if missing > 0 || len(acked) < 100 {
		t.Errorf("%d of %d acknowledged payloads are missing", missing, len(acked))
	}
	if infos, _ := j.List(journal.StateQuarantined); len(infos) > 0 {
		t.Errorf("quarantined: %+v", infos)
	}
	t.Logf("%d acknowledged, %d more found", len(acked), len(got)-len(acked))
}

// killedRun returns what one victim acknowledged until it was killed at a random moment.
func killedRun(t *testing.T, dir string) (acked []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var killer *time.Timer
	for lines.Scan() {
		if killer == nil {
			killer = time.AfterFunc(time.Duration(20+rand.IntN(100))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		}
		acked = append(acked, lines.Text())
	}
	_ = cmd.Wait()
	if killer == nil {
		t.Fatal("the victim appended nothing")
	}
	return acked
}
