package query

import "math"

// sketch describes a visitor sketch of the rollups: uniqCombined64(precision), whose union does not depend on how its parts were
// merged. It keeps the hashes themselves while there are few and a HyperLogLog of 2^precision cells afterwards.
type sketch struct {
	// precision of uniqCombined64; the rollup's column type names the same.
	precision int
	// exactBelow is the greatest reported value that is certainly exact. On ClickHouse 26.7 the hashes are kept up to
	// 2^(precision-5) of them (4096 and 1024; TestSketchExactSize holds it). An estimate of slightly more visitors may fall
	// short of that, by five standard deviations of linear counting less than 2 %; so 3 % is taken off.
	exactBelow int64
	// bound of the relative error above that: three standard errors, 3 * 1.04 / sqrt(2^precision), rounded up
	// (Flajolet et al., HyperLogLog, 2007).
	bound float64
}

var (
	siteSketch  = sketch{precision: 17, exactBelow: 3973, bound: 0.009}
	valueSketch = sketch{precision: 15, exactBelow: 993, bound: 0.018}
)

func (s sketch) exact(visitors int64) bool { return visitors <= s.exactBelow }

// ofRatio bounds the relative error of one estimate divided by another, rounded up to thousandths.
func (s sketch) ofRatio() float64 {
	const thousand = 1000
	return math.Ceil(((1+s.bound)/(1-s.bound)-1)*thousand) / thousand
}
