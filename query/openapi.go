package query

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/gofiber/fiber/v2"

	"github.com/pagetally/pagetally/schema"
)

// The description of the API is made from the same tables as the API: a parameter without a text, and a text without a parameter, fail a
// test. Schemas are held to real answers by tests.

type object = map[string]any

// openAPIVersion is the version of the format; its schemas are JSON Schema 2020-12.
const openAPIVersion = "3.1.0"

// paramTexts describe parameters of our own questions, and their schemas where these are no plain texts.
var paramTexts = map[string]struct {
	text   string
	schema object
}{
	"site":       {"The site's domain.", nil},
	"path":       {"A page, as a path or URL. Without it: all pages.", nil},
	"name":       {"Name of an event. Without it: page views and all events.", nil},
	"from":       {"First day (2025-03-01), or an instant with an offset. Without from and period: all there is.", nil},
	"to":         {"Last day, included; or an instant, excluded. Without it: today.", nil},
	"period":     {"In place of from and to. day, month and year are the current ones; spans of days and months end with the last whole one; 24h and realtime (half an hour) end now.", enum(periodNames...)},
	"tz":         {"IANA time zone in which days begin. Without it: the site's.", nil},
	"metrics":    {"Comma-separated: " + listOf(metrics) + ". Without it: views or events, and visitors.", nil},
	"filters":    {"JSON list of filters, all of which must hold.", object{"type": "string", "contentMediaType": "application/json", "contentSchema": ref("Filters")}},
	"mode":       {"Where a count may come from: the tables (exact), or Redis upon a base from the tables (recent); auto takes recent where Redis knows.", enum(string(ModeExact), string(ModeRecent), string(ModeAuto))},
	"final":      {"0 reads sums without FINAL: the same numbers, sooner while parts are unmerged.", enum("0", "1", "false", "true")},
	"explain":    {"1 adds to meta which tables answered, and what each statement read.", enum("0", "1", "false", "true")},
	"format":     {"The form of the answer. Accept: text/csv does the same as csv.", enum("json", "csv")},
	"compare":    {"Compare with as long a time before, or with the same dates of the year before.", enum(names(comparisons)...)},
	"interval":   {"Width of a bar. Without it: what suits the range.", enum(names(intervals)...)},
	"week_start": {"First day of weekly bars. Without it: the site's.", enum("monday", "sunday")},
	"dimension":  {"Comma-separated, at most 6: a dimension of events, entry_page, exit_page, visit:source and so on, props.NAME, goal.", nil},
	"limit":      {"Rows of a page.", object{"type": "integer", "minimum": 1, "maximum": MaxLimit, "default": DefaultLimit}},
	"page":       {"Which page of rows, from 1.", object{"type": "integer", "minimum": 1, "maximum": MaxPage, "default": 1}},
	"order":      {"Comma-separated metrics and dimensions to order by, - before one turns it round. Without it: the greatest count first.", nil},
}

// plausibleTexts describe the parameters of version 1 of Plausible's stats API.
var plausibleTexts = map[string]string{
	"site_id":       "The site's domain.",
	"period":        "day, 7d, 30d (the default), month, 6mo, 12mo: ending with date; or custom.",
	"date":          "A day, today without it; with period=custom two days, joined by a comma, both included.",
	"from":          "With period=custom and no date: the first day.",
	"to":            "With period=custom and no date: the last day, included.",
	"metrics":       "Comma-separated: visitors (the default), visits, pageviews, views_per_visit, bounce_rate, visit_duration, events, conversion_rate, time_on_page, scroll_depth.",
	"filters":       "property==value, property!=value, property==a|b, with * for any text; joined by semicolons, all of which must hold.",
	"with_imported": "Nothing is imported: changes nothing.",
	"compare":       "previous_period adds the change in per cent.",
	"interval":      "day or month. Without it: hours of a day, months of 6mo and 12mo, else days.",
	"property":      "What to break down by: event:page, visit:source, event:props:NAME, ...",
	"limit":         "Rows of a page, 100 without it, at most 1000.",
	"page":          "Which page of rows, from 1.",
}

// requiredParams are those that a question cannot do without.
var requiredParams = map[Question][]string{
	Count: {"site"}, Totals: {"site"}, Timeseries: {"site"}, Top: {"site", "dimension"},
}

var questionTexts = map[Question]string{
	Count:      "The count of a page or a site.",
	Totals:     "Each metric over a range, beside that of a range before.",
	Timeseries: "A bar for every interval of a range that has begun.",
	Top:        "The values of dimensions with the greatest counts.",
}

func enum(values ...string) object { return object{"type": "string", "enum": values} }

func ref(name string) object { return object{"$ref": "#/components/schemas/" + name} }

func listOfItems(of object) object { return object{"type": "array", "items": of} }

var (
	plainText = object{"type": "string"}
	integer   = object{"type": "integer"}
	number    = object{"type": "number"}
	boolean   = object{"type": "boolean"}
	instant   = object{"type": "string", "format": "date-time"}
)

// exactly is an object with these properties and no others; those that are not named optional must be there.
func exactly(properties object, optional ...string) object {
	required := slices.DeleteFunc(slices.Sorted(maps.Keys(properties)), func(name string) bool { return slices.Contains(optional, name) })
	return object{"type": "object", "additionalProperties": false, "properties": properties, "required": required}
}

// with is properties and more.
func with(properties object, more object) object {
	all := maps.Clone(properties)
	maps.Copy(all, more)
	return all
}

// figureProperties are the metrics, each of which is there if it was asked for.
func figureProperties() (properties object, all []string) {
	properties = object{}
	for _, m := range metrics {
		kind := object{"type": "integer"}
		if m.isRate() {
			kind = object{"type": []string{"number", "null"}}
		}
		properties[string(m)] = with(kind, object{"description": definitions[m]})
		all = append(all, string(m))
	}
	return properties, all
}

func schemas() object {
	figures, all := figureProperties()
	with := func(more object, optional ...string) object {
		return exactly(with(figures, more), append(optional, all...)...)
	}
	span := exactly(object{"last_5_minutes": integer, "last_30_minutes": integer})
	byMetric := func(of object) object {
		return object{"type": "object", "propertyNames": object{"enum": all}, "additionalProperties": of}
	}
	now := listOfItems(exactly(object{"value": plainText, "views": integer}))
	return object{
		"Error":   exactly(object{"error": exactly(object{"code": plainText, "field": plainText, "message": plainText}, "field")}),
		"Range":   exactly(object{"from": instant, "to": instant, "tz": plainText}),
		"Filters": listOfItems(ref("Filter")),
		"Filter": object{"type": "array", "minItems": 2, "maxItems": 4, "prefixItems": []any{
			enum(append(append(names(valueOps), names(joinOps)...), names(singleOps)...)...),
		}, "description": "[operator, dimension, [values], {\"case_sensitive\": false}], [\"and\" or \"or\", [filters]], or [\"not\", \"has_done\" or \"has_not_done\", filter]."},
		"Meta": exactly(object{
			"exact": byMetric(boolean), "error_bound": byMetric(number), "as_of": instant, "range": ref("Range"),
			"source": enum("exact", "recent"), "reason": plainText, "definition": byMetric(plainText), "partial": boolean, "base": with(object{"before": instant}),
			"compared": ref("Range"), "total_rows": integer, "explanation": ref("Explanation"),
		}, "reason", "partial", "base", "compared", "total_rows", "explanation"),
		"Explanation": exactly(object{
			"plan": object{"type": "object", "additionalProperties": plainText},
			"statements": listOfItems(exactly(object{
				"sql": plainText, "params": object{"type": "object"}, "read_rows": integer, "read_bytes": integer, "ms": number,
			})),
		}),
		"Count":  with(object{"site": plainText, "path": plainText, "name": plainText, "meta": ref("Meta")}, "path", "name"),
		"Totals": exactly(object{"results": byMetric(exactly(object{"value": object{"type": []string{"number", "null"}}, "previous": object{"type": []string{"number", "null"}}}, "previous")), "meta": ref("Meta")}),
		"Timeseries": exactly(object{
			"results": listOfItems(with(object{
				"date": plainText, "start": instant, "end": instant, "partial": boolean, "previous": with(object{"date": plainText}),
			}, "partial", "previous")),
			"interval": enum(names(intervals)...), "meta": ref("Meta"),
		}),
		"Top": exactly(object{
			"results": listOfItems(object{"type": "object", "properties": figures, "additionalProperties": plainText, "description": "A row has its dimensions by name, and its metrics."}),
			"meta":    ref("Meta"),
		}),
		"Realtime": exactly(object{
			"site": plainText, "visitors": span, "views": span, "minutes": listOfItems(exactly(object{"start": instant, "views": integer})),
			"pages": now, "sources": now, "countries": now,
			"meta": exactly(object{"source": enum("hot", "exact"), "reason": plainText, "exact": object{"type": "object"}, "error_bound": object{"type": "object"}, "as_of": instant}, "reason"),
		}),
		"Ledger":         object{"type": "object", "required": []string{"accepted", "stored", "duplicate", "parked", "pending", "quarantined", "balanced"}, "description": "What became of all events that were accepted."},
		"PlausibleError": exactly(object{"error": plainText}),
		"PlausibleV1":    object{"type": "object", "required": []string{"results"}},
		"PlausibleV2": exactly(object{
			"results": listOfItems(exactly(object{"dimensions": listOfItems(plainText), "metrics": listOfItems(object{"type": []string{"number", "null"}})})),
			"meta":    object{"type": "object"}, "query": object{"type": "object"},
		}),
	}
}

// answers are the replies of an operation: the good one, and the errors.
func answers(good object, failure string, more ...string) object {
	failed := func(text string) object {
		return object{"description": text, "content": object{fiber.MIMEApplicationJSON: object{"schema": ref(failure)}}}
	}
	all := object{
		"200": good, "400": failed("A parameter is wrong; the error names it."), "401": failed("No key, or none that is known."),
		"429": failed("The key asks too often: see Retry-After."), "503": failed("Too many questions at once, one that would cost too much, or tables that cannot be read: see Retry-After."),
	}
	if failure == "Error" {
		all["403"] = failed("The key may not read this.")
	}
	for _, code := range more {
		all[code] = object{"description": "The answer has not changed: the ETag is the one sent in If-None-Match."}
	}
	return all
}

func replyOf(schema object, also ...string) object {
	content := object{fiber.MIMEApplicationJSON: object{"schema": schema}}
	for _, kind := range also {
		content[kind] = object{"schema": plainText}
	}
	return object{"description": "The answer.", "content": content}
}

func parameter(name, description string, required bool, kind object) object {
	if kind == nil {
		kind = plainText
	}
	return object{"name": name, "in": "query", "required": required, "description": description, "schema": kind}
}

func paths() object {
	all := object{}
	for _, q := range []Question{Count, Totals, Timeseries, Top} {
		var parameters []object
		for _, name := range append(Params(q), "format") {
			p := paramTexts[name]
			parameters = append(parameters, parameter(name, p.text, slices.Contains(requiredParams[q], name), p.schema))
		}
		schema := map[Question]string{Count: "Count", Totals: "Totals", Timeseries: "Timeseries", Top: "Top"}[q]
		all["/v1/"+string(q)] = object{"get": object{
			"operationId": string(q), "summary": questionTexts[q], "tags": []string{"Reading"}, "parameters": parameters,
			"responses": answers(replyOf(ref(schema), "text/csv"), "Error", "304"),
		}}
	}
	site := []object{parameter("site", paramTexts["site"].text, true, nil)}
	all["/v1/realtime"] = object{"get": object{
		"operationId": "realtime", "summary": "The last hour by the minute.", "tags": []string{"Reading"}, "parameters": site, "responses": answers(replyOf(ref("Realtime")), "Error"),
	}}
	all["/v1/realtime/stream"] = object{"get": object{
		"operationId": "realtimeStream", "summary": "The same once a second, as server-sent events.", "tags": []string{"Reading"}, "parameters": site,
		"responses": answers(object{"description": "Events whose data is a Realtime.", "content": object{"text/event-stream": object{"schema": plainText}}}, "Error"),
	}}
	all["/v1/ledger"] = object{"get": object{
		"operationId": "ledger", "summary": "What became of all events that were accepted. Needs a key for all sites.", "tags": []string{"Operating"}, "responses": answers(replyOf(ref("Ledger")), "Error"),
	}}
	all["/api/v2/query"] = object{"post": object{
		"operationId": "plausibleQuery", "summary": "Plausible's stats API, version 2.", "tags": []string{"Plausible"},
		"requestBody": object{"required": true, "content": object{fiber.MIMEApplicationJSON: object{"schema": json.RawMessage(plausibleSchema)}}},
		"responses":   answers(replyOf(ref("PlausibleV2")), "PlausibleError"),
	}}
	for _, kind := range slices.Sorted(maps.Keys(plausibleV1Own)) {
		var parameters []object
		for _, name := range append(slices.Clone(plausibleV1Params), plausibleV1Own[kind]...) {
			parameters = append(parameters, parameter(name, plausibleTexts[name], name == "site_id" || name == "property", nil))
		}
		all["/api/v1/stats/"+kind] = object{"get": object{
			"operationId": "plausible_" + kind, "summary": "Plausible's stats API, version 1.", "tags": []string{"Plausible"}, "parameters": parameters,
			"responses": answers(replyOf(ref("PlausibleV1")), "PlausibleError"),
		}}
	}
	all["/api/v1/stats/realtime/visitors"] = object{"get": object{
		"operationId": "plausible_realtime", "summary": "Visitors of the last five minutes, a bare number.", "tags": []string{"Plausible"},
		"parameters": []object{parameter("site_id", "The site's domain.", true, nil)}, "responses": answers(replyOf(integer), "PlausibleError"),
	}}
	return all
}

// openAPI is the description of what can be asked.
func openAPI() object {
	return object{
		"openapi": openAPIVersion,
		"info": object{
			"title": "Pagetally", "version": "1", "license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "Reading what was counted. Times are printed with an offset; ranges of dates include both days, ranges of instants exclude the end. " +
				fmt.Sprintf("Dimensions of events: %s.", listOf(schema.Dimensions())),
		},
		"security":   []object{{"key": []string{}}, {}},
		"paths":      paths(),
		"components": object{"schemas": schemas(), "securitySchemes": object{"key": object{"type": "http", "scheme": "bearer", "description": "A key with the scope read. Public sites, and callers on this machine where that is allowed, need none."}}},
	}
}
