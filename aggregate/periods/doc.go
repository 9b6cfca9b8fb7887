// Package periods builds what was counted in closed periods into tables that read fast: whole days and months of UTC from the rollups by
// quarter of an hour, and the visits of whole days of a site from its events.
//
// A build adds rows under a number of its own, and then a row of the table builds that makes it the current one. That row says how many
// changes the ledger counted of the period's days when the build began; readers use a build only while there are no more (see
// package query). So nothing is wrong while a build is missing, stale, half done, or made by two nodes at once: readers take the finer
// rows, and what is left over is deleted later. No clock and no lock decides what is right.
//
// Life of a period: it ends; a grace passes, for what is on its way; Look finds that it has no build as recent as its changes and that nobody has
// touched it for a while (due.go, pure), builds it (build.go), the newest first, and builds it again when it was touched since. A month is built from
// its days. Days on which nothing happened are built, too, so that periods leave no holes.
//
// Run owns the only goroutine. Start reading at builder.go.
package periods
