package schema

import "github.com/ClickHouse/clickhouse-go/v2"

// whole is a block size that no block reaches. It stays below 2^53, which every client and log prints exactly.
const whole = 1 << 40

// InsertSettings are the settings of every INSERT into the inbox and into the tables behind it, kept here alone. Nothing is left
// to a server's defaults, because they differ between releases and profiles.
//
// token names the INSERT: a table that holds a block of that token takes no second one, whatever rows it has. It must be new for
// new rows and the same for a retry, which must send the same rows in one block again. The block-size settings keep that block
// whole on its way through the views (one part for each partition of a table): a retry that were cut in other places than the
// first try would lose rows or count them twice.
func InsertSettings(token string) clickhouse.Settings {
	return clickhouse.Settings{
		"async_insert":               0,
		"insert_deduplicate":         1,
		"deduplicate_insert":         "enable",
		"insert_deduplication_token": token,
		"deduplicate_blocks_in_dependent_materialized_views": 1,

		// One stream, so that blocks reach a table in one order.
		"max_insert_threads":       1,
		"parallel_view_processing": 0,

		"max_block_size":                                     whole,
		"max_insert_block_size":                              whole,
		"max_insert_block_size_bytes":                        0,
		"min_insert_block_size_rows":                         whole,
		"min_insert_block_size_bytes":                        whole,
		"min_insert_block_size_rows_for_materialized_views":  whole,
		"min_insert_block_size_bytes_for_materialized_views": whole,
		"use_strict_insert_block_limits":                     0,

		// A batch is bounded where it is cut; here a refusal would come after other tables took their part.
		"max_partitions_per_insert_block": 0,
		// A view that fails must fail the INSERT.
		"materialized_views_ignore_errors": 0,
		// The views group their rows already: doing it again before the write costs a fifth of an INSERT and changes nothing.
		"optimize_on_insert": 0,
		// How the view of the dimensions tells its grouping sets apart.
		"force_grouping_standard_compatibility": 1,
		"group_by_use_nulls":                    0,
	}
}

// ExactSettings are the settings of every statement whose answer must be right to the row. The server's cache of which granules a
// condition does not match (query condition cache, on by default since 25.4) was wrong in several releases, so that rows went
// missing from answers.
func ExactSettings() clickhouse.Settings { return clickhouse.Settings{"use_query_condition_cache": 0} }
