// Command pagetally counts page views: it takes view events over HTTP, makes each durable before it answers, has ClickHouse add
// them up and reads the sums back.
//
// This folder only turns flags, environment and a YAML file into one Config per package and wires the packages together.
// Start with serve.go: run builds the parts in the order in which an event passes them and stops them in reverse. Every
// other subcommand has a file of its own. config.go is the one list of settings; the README's table is tested against it.
//
// Exit codes: 0 done, 1 failed, 2 wrong usage or configuration. doctor exits with its worst finding: 0 ok, 1 warn, 2 fail.
package main
