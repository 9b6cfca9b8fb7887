// Package journaltest provides a file system for tests of the journal and its users: it fails or stops at a chosen
// call, so that a test can walk a script through a fault at every one of its file calls.
package journaltest
