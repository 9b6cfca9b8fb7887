// Package schema says what Pagetally stores: the row of one event and its encodings, the tables it is added up in, and the
// numbered migrations that make those tables.
//
// An [Event] is final once it is journaled. [Event.AppendTo] and [DecodeEvent] are its journal encoding; [Rows] turns events into
// one INSERT of one block into the inbox, which must be sent with [InsertSettings]. The inbox keeps nothing: views carry the
// block into events, event_ids, views, visitors and dimensions ([Targets]), and the token of the INSERT makes each of them take
// it once.
//
// [Migrate] brings a database up to this binary's tables. All names in the SQL are unqualified: the database is the one that the
// connection has as its default, so that tests give every test a database of its own.
//
// The package knows no other package of Pagetally and starts no goroutine that outlives a call. Start reading at event.go and
// migrations/0001_events.sql.
package schema
