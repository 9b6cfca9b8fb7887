package query

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"slices"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
)

// A badge is two boxes, label and number. The number's box has a color of its own, dark enough for white text on light and dark
// pages alike; the label's follows the reader's scheme in SVG, which a PNG cannot know.
const (
	badgeHeight   = 20
	badgePad      = 6 // pixels left and right of a text
	badgeFont     = 11
	badgeBaseline = 14

	defaultBadgeColor = "blue"

	labelBoxLight, labelTextLight = "#eaeef2", "#1f2328"
	labelBoxDark, labelTextDark   = "#30363d", "#e6edf3"
	numberText                    = "#ffffff"
)

var badgeColors = map[string]string{
	"blue": "#0969da", "green": "#1a7f37", "grey": "#57606a", "orange": "#bc4c00", "purple": "#8250df", "red": "#cf222e",
}

func badgeColorNames() []string { return slices.Sorted(maps.Keys(badgeColors)) }

// badgeSVG draws a badge. Texts are as wide as they are in Go's font, whatever font the reader has.
func badgeSVG(label, number, color string) []byte {
	left, right := textWidth(label, badgeFont), textWidth(number, badgeFont)
	middle := left + 2*badgePad
	width := middle + right + 2*badgePad
	title := escapeXML(label + ": " + number)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" role="img" aria-label="%s">`,
		width, badgeHeight, title)
	fmt.Fprintf(&b, `<title>%s</title><style>.pt-box{fill:%s}.pt-label{fill:%s}@media(prefers-color-scheme:dark){.pt-box{fill:%s}.pt-label{fill:%s}}</style>`,
		title, labelBoxLight, labelTextLight, labelBoxDark, labelTextDark)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="3" fill="%s"/><path class="pt-box" d="M3 0H%dV%[2]dH3a3 3 0 0 1-3-3V3a3 3 0 0 1 3-3z"/>`,
		width, badgeHeight, color, middle)
	fmt.Fprintf(&b, `<g font-family="Arial,Helvetica,sans-serif" font-size="%d"><text class="pt-label" x="%d" y="%d" textLength="%d" lengthAdjust="spacingAndGlyphs">%s</text>`,
		badgeFont, badgePad, badgeBaseline, left, escapeXML(label))
	fmt.Fprintf(&b, `<text fill="%s" x="%d" y="%d" textLength="%d" lengthAdjust="spacingAndGlyphs">%s</text></g></svg>`,
		numberText, middle+badgePad, badgeBaseline, right, escapeXML(number))
	return b.Bytes()
}

func escapeXML(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a buffer takes all
	return b.String()
}

// badgePNG draws a badge for where no SVG is shown, such as in mails. Its font has Latin, Greek and Cyrillic letters; others are
// drawn as boxes.
func badgePNG(label, number, fill string) ([]byte, error) {
	left, right := textWidth(label, badgeFont), textWidth(number, badgeFont)
	middle := left + 2*badgePad
	width := middle + right + 2*badgePad
	img := image.NewNRGBA(image.Rect(0, 0, width, badgeHeight))
	fillRect(img, image.Rect(0, 0, middle, badgeHeight), labelBoxLight)
	fillRect(img, image.Rect(middle, 0, width, badgeHeight), fill)
	drawText(img, label, badgePad, badgeBaseline, badgeFont, labelTextLight)
	drawText(img, number, middle+badgePad, badgeBaseline, badgeFont, numberText)
	return encodePNG(img)
}

func encodePNG(img image.Image) ([]byte, error) {
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		return nil, fmt.Errorf("encode image: %w", err)
	}
	return b.Bytes(), nil
}

func fillRect(img draw.Image, r image.Rectangle, hex string) {
	draw.Draw(img, r, image.NewUniform(rgb(hex)), image.Point{}, draw.Src)
}

// rgb reads #rrggbb; the colors are constants.
func rgb(hex string) (c color.NRGBA) {
	if _, err := fmt.Sscanf(hex, "#%02x%02x%02x", &c.R, &c.G, &c.B); err != nil {
		panic(err)
	}
	c.A = 0xff
	return c
}

func drawText(img draw.Image, text string, x, baseline, size int, hex string) {
	d := font.Drawer{Dst: img, Src: image.NewUniform(rgb(hex)), Face: newFace(size), Dot: fixed.P(x, baseline)}
	d.DrawString(text)
}

// textWidth is the width of text in pixels, rounded up. A letter that the font lacks is taken to be as wide as high.
func textWidth(text string, size int) int {
	face, goFont := newFace(size), goFont()
	var buf sfnt.Buffer
	var width fixed.Int26_6
	for _, r := range text {
		index, err := goFont.GlyphIndex(&buf, r)
		advance, ok := face.GlyphAdvance(r)
		if err != nil || index == 0 || !ok {
			advance = fixed.I(size)
		}
		width += advance
	}
	return width.Ceil()
}

// newFace is for one goroutine.
func newFace(size int) font.Face {
	face, err := opentype.NewFace(goFont(), &opentype.FaceOptions{Size: float64(size), DPI: 72, Hinting: font.HintingFull})
	if err != nil {
		panic(err) // fails for no font and options like these
	}
	return face
}

var goFont = sync.OnceValue(func() *opentype.Font {
	f, err := opentype.Parse(goregular.TTF)
	if err != nil {
		panic(err) // a constant
	}
	return f
})
