package query

import (
	"slices"
	"strings"
	"sync"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"

	"github.com/pagetally/pagetally/schema"
)

// Plausible's stats API names dimensions event:... and visit:..., and metrics partly otherwise than this package does.

// plausibleDimension is one of Plausible's dimensions, as it is asked of the tables.
type plausibleDimension struct {
	dimension string // "" for time
	interval  Interval
	auto      bool                      // time without an interval: what suits the range
	shown     func(value string) string // nil: as stored
}

var plausibleIntervals = map[string]Interval{"time:minute": Minute, "time:hour": Hour, "time:day": Day, "time:week": Week, "time:month": Month}

// readPlausibleDimension finds what one of Plausible's names stands for.
func readPlausibleDimension(name string) (plausibleDimension, error) {
	if interval, ok := plausibleIntervals[name]; ok {
		return plausibleDimension{interval: interval}, nil
	}
	kind, rest, _ := strings.Cut(name, ":")
	switch {
	case name == "time":
		return plausibleDimension{auto: true}, nil
	case kind == "event" && rest == "page":
		return plausibleDimension{dimension: dimPath}, nil
	case kind == "event" && (rest == "hostname" || rest == dimGoal || rest == dimName):
		return plausibleDimension{dimension: rest}, nil
	case kind == "event" && strings.HasPrefix(rest, "props:"):
		dimension, err := parseDimension(propPrefix + strings.TrimPrefix(rest, "props:"))
		return plausibleDimension{dimension: dimension}, err
	case name == "visit:country_name":
		return plausibleDimension{dimension: visitPrefix + "country", shown: countryName}, nil
	case name == "visit:region_name", name == "visit:city_name":
		return plausibleDimension{dimension: visitPrefix + strings.TrimSuffix(rest, "_name")}, nil
	case name == "visit:entry_page_hostname":
		return plausibleDimension{dimension: visitPrefix + "hostname"}, nil
	case kind == "visit" && (rest == dimEntry || rest == dimExit):
		return plausibleDimension{dimension: rest}, nil
	case kind == "visit" && slices.Contains(schema.VisitAttributes(), rest):
		return plausibleDimension{dimension: name}, nil
	}
	return plausibleDimension{}, refusal("Invalid dimension %.100q", name)
}

// label is how a value is shown.
func (d plausibleDimension) label(value string) string {
	if value != "" && d.shown != nil {
		return d.shown(value)
	}
	return valueLabel(d.dimension, value)
}

// filterDimension is what a name in a filter stands for.
func plausibleFilterDimension(name string) (string, error) {
	d, err := readPlausibleDimension(name)
	switch {
	case err != nil:
		return "", err
	case d.dimension == "":
		return "", refusal("Invalid filter: %q cannot be filtered by", name)
	case d.shown != nil:
		return "", refusal("Invalid filter: filter by visit:country, with codes such as DE, in place of %q", name)
	}
	return d.dimension, nil
}

var regions = sync.OnceValue(func() display.Namer { return display.Regions(language.English) })

// countryName is the English name of an ISO 3166-1 code.
func countryName(code string) string {
	region, err := language.ParseRegion(code)
	if err != nil {
		return code
	}
	if name := regions().Name(region); name != "" {
		return name
	}
	return code
}

// plausibleMetrics are Plausible's names of metrics. Revenue is not kept: it is null, which Plausible answers for goals without it.
var plausibleMetrics = map[string]Metric{
	"visitors": Visitors, "visits": Visits, "pageviews": Views, "views_per_visit": ViewsPerVisit, "bounce_rate": BounceRate,
	"visit_duration": VisitDuration, "events": Events, "scroll_depth": ScrollDepth, "time_on_page": TimeOnPage,
	"conversion_rate": Visitors, "percentage": Visitors, "group_conversion_rate": ConversionRate,
	"average_revenue": "", "total_revenue": "",
}

// Metrics that are visitors divided by those of the whole answer.
const (
	plausibleConversion = "conversion_rate"
	plausiblePercentage = "percentage"
)

// wholeNumbers are metrics that Plausible rounds.
var wholeNumbers = []string{"bounce_rate", "visit_duration", "time_on_page", "scroll_depth"}
