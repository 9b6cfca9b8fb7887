package query

import (
	"bytes"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"unicode/utf8"

	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
)

// Measures of a badge in pixels. Letters are taken for as wide as most fonts' digits, and textLength makes them so.
const (
	badgeHeight  = 20
	badgePadding = 8
	badgeLetter  = 7
)

func badgeWidth(text string) int { return utf8.RuneCountInString(text)*badgeLetter + 2*badgePadding }

// badgeSVG draws label and value side by side, readable on light and dark pages.
func badgeSVG(label, value string) []byte {
	left, right := badgeWidth(label), badgeWidth(value)
	title := html.EscapeString(label + ": " + value)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" role="img" aria-label="%s">`, left+right, badgeHeight, title)
	fmt.Fprintf(&b, `<title>%s</title>`, title)
	b.WriteString(`<style>.l{fill:#e5e7eb}.r{fill:#1d4ed8}text{font:11px Verdana,DejaVu Sans,sans-serif}.lt{fill:#111827}.rt{fill:#fff}` +
		`@media (prefers-color-scheme:dark){.l{fill:#374151}.lt{fill:#f9fafb}.r{fill:#60a5fa}.rt{fill:#0b1220}}</style>`)
	fmt.Fprintf(&b, `<rect class="l" width="%d" height="%d"/><rect class="r" x="%d" width="%d" height="%d"/>`, left, badgeHeight, left, right, badgeHeight)
	text := func(class, text string, x, width int) {
		fmt.Fprintf(&b, `<text class="%s" x="%d" y="14" textLength="%d" lengthAdjust="spacingAndGlyphs">%s</text>`,
			class, x+badgePadding, width-2*badgePadding, html.EscapeString(text))
	}
	text("lt", label, 0, left)
	text("rt", value, left, right)
	b.WriteString(`</svg>`)
	return b.Bytes()
}

// badgePNG draws the same for where no SVG is shown. Its font has the letters of ASCII.
func badgePNG(label, value string) ([]byte, error) {
	left, right := badgeWidth(label), badgeWidth(value)
	picture := image.NewRGBA(image.Rect(0, 0, left+right, badgeHeight))
	fill := func(from, to int, c color.Color) {
		draw.Draw(picture, image.Rect(from, 0, to, badgeHeight), image.NewUniform(c), image.Point{}, draw.Src)
	}
	fill(0, left, color.RGBA{0xe5, 0xe7, 0xeb, 0xff})
	fill(left, left+right, color.RGBA{0x1d, 0x4e, 0xd8, 0xff})
	write := func(text string, x int, c color.Color) {
		d := font.Drawer{Dst: picture, Src: image.NewUniform(c), Face: basicfont.Face7x13, Dot: fixed.P(x+badgePadding, 14)}
		d.DrawString(text)
	}
	write(label, 0, color.RGBA{0x11, 0x18, 0x27, 0xff})
	write(value, left, color.White)
	var b bytes.Buffer
	if err := png.Encode(&b, picture); err != nil {
		return nil, fmt.Errorf("encode badge: %w", err)
	}
	return b.Bytes(), nil
}
