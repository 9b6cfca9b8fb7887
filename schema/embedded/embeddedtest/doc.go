// Package embeddedtest gives tests a real engine: one for all tests of a package, with a database for each test, or a
// private one that a test may kill.
//
// A package that uses it has
//
//	func TestMain(m *testing.M) { embeddedtest.Main(m) }
//
// which also lets the test binary serve as the engine's child, and leaves no process and no directory behind.
package embeddedtest
