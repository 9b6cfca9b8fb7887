// Package chaos proves on the real binary that each acknowledged event is counted exactly once, whatever is killed.
//
// It holds tests only. They build pagetally, run `pagetally serve` with its embedded engine on a temporary folder, send events
// over many keep-alive connections and note in a record what was acknowledged. Meanwhile they do to the processes what
// happens to processes: SIGKILL at random moments, an engine that stops answering, a Redis that forgets or hangs, a disk that fills up. In the end the record
// must equal the tables, the answers of the API and the ledger to the unit.
//
// # What a sender may conclude
//
// A 2xx without a header that says "dropped" is a promise. An answer that never came promises nothing: the sender repeats the
// event under the same id until it is acknowledged, and it must count once. Events without an id are sent once; whether one
// without an answer counts is open, so that its page counts between what was acknowledged and what was sent.
//
// # Running
//
// `go test` does 30 rounds of kills, `make torture` (PAGETALLY_TORTURE=1) 300 and longer outages. Every choice comes from one
// seed, which a failure prints; -chaos.seed makes the same choices again, at moments that the machine decides.
//
// Start reading at kills_test.go; server_test.go holds the process under test, client_test.go the senders, verify_test.go
// what must be equal.
package chaos
