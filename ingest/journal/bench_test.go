package journal_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/pagetally/pagetally/ingest/journal"
)

// BenchmarkAppend measures acknowledged appends of 300 bytes from many goroutines.
func BenchmarkAppend(b *testing.B) {
	payload := make([]byte, 300)
	for _, appenders := range []int{1, 64, 512} {
		b.Run(fmt.Sprint(appenders), func(b *testing.B) {
			j, err := journal.Open(journal.Options{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer j.Close()
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for i := range appenders {
				n := b.N / appenders
				if i < b.N%appenders {
					n++
				}
				wg.Go(func() {
					for range n {
						if _, err := j.Append(b.Context(), payload, 1); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
