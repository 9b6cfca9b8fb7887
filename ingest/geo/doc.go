// Package geo tells where an address is: country, region and city by a database file in MaxMind's MMDB format. It reads the
// layouts of MaxMind (GeoLite2, GeoIP2), DB-IP and ip-location-db, which name the same things differently.
//
// A Database is opened from a file and stays usable from then on: Run looks at the file now and then and takes a new one over
// as a whole; one that cannot be read is reported once and the old one stays in use. The file is read into memory, so that
// replacing it in place can neither crash the process nor mix two editions.
//
// No address is kept: what is remembered are the records of the file, by their place in it.
//
// Run owns the only goroutine. Start reading at database.go; layouts.go knows the files.
package geo
