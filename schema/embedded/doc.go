// Package embedded runs a real ClickHouse as a child process of this very binary, so that a single node needs no
// server of its own.
//
// The engine is the shared library libchdb.so (see deployments/embedded). Its `clickhouse local` serves ClickHouse's
// native and HTTP protocols while it sits at a terminal; the parent holds the other side of that pseudo-terminal.
// Closing it, for whatever reason, also by kill -9 of the parent, ends the child.
//
// The life of an engine: New checks the configuration; Run takes the directory, reads or makes its ports and passwords,
// writes the configuration files, starts the child, pings it until it answers and restarts it with backoff whenever it
// dies; cancelling Run's context ends the child, and Run returns only once its process is gone. Ready waits for the
// first ping; Writer and Reader say how to connect.
//
// main and every TestMain that may start an engine call RunChildIfAsked first: the child is the same executable.
//
// Guarantees: at most one engine process on a directory, also across kills of the parent; no connection without a
// password; a crash of the engine never takes the parent with it. Run owns every goroutine of the package.
package embedded
