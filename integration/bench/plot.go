package main

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
)

// point is a measured value; both are above zero, since both axes are logarithmic.
type point struct{ x, y float64 }

// line is one line of a plot. Points that a logarithm does not know are left out.
type line struct {
	name, colour string
	dashed       bool
	points       []point
}

// Size of a plot in pixels: the whole and the four margins around the axes.
const (
	plotWidth, plotHeight                 = 760.0, 460.0
	plotLeft, plotRight, plotTop, plotLow = 70.0, 20.0, 50.0, 60.0
)

// decades are the whole powers of ten around values: an axis from 10^low to 10^high.
func decades(values []float64) (low, high int) {
	least, most := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		least, most = min(least, v), max(most, v)
	}
	low, high = int(math.Floor(math.Log10(least))), int(math.Ceil(math.Log10(most)))
	if high == low {
		high++
	}
	return low, high
}

// growthLines are the lines of the growth plot: what was measured, and how it would be
// if each pod cost the same as in the middle of the range. With both axes logarithmic
// every straight proportion has the same slope, so that the eye can compare.
func growthLines(rows []row) []line {
	solve := line{name: "solve, seconds", colour: "#0b62a4"}
	cpu := line{name: "CPU, seconds", colour: "#c2410c"}
	for _, r := range rows {
		solve.points = append(solve.points, point{float64(r.Answer.Pods), r.Seconds()})
		cpu.points = append(cpu.points, point{float64(r.Answer.Pods), r.CPUSeconds()})
	}
	solve.points, cpu.points = positive(solve.points), positive(cpu.points)
	out := []line{solve, cpu}
	of := cpu.points
	if len(of) == 0 { // a system that cannot tell processor time
		of = solve.points
	}
	if len(of) > 1 {
		middle, first, last := of[len(of)/2], of[0], of[len(of)-1]
		each := middle.y / middle.x
		out = append(out, line{name: "linear, through " + number(middle.x) + " pods", colour: "#6b7280", dashed: true,
			points: []point{{first.x, each * first.x}, {last.x, each * last.x}}})
	}
	return out
}

func positive(points []point) []point {
	var out []point
	for _, p := range points {
		if p.x > 0 && p.y > 0 {
			out = append(out, p)
		}
	}
	return out
}

// writePlot draws lines as SVG, both axes logarithmic. Nothing to draw is an error,
// since an empty picture would pass for a measurement.
func writePlot(to io.Writer, title, xName, yName string, lines []line) error {
	var xs, ys []float64
	for _, l := range lines {
		for _, p := range positive(l.points) {
			xs, ys = append(xs, p.x), append(ys, p.y)
		}
	}
	if len(xs) == 0 {
		return fmt.Errorf("plot %q: expected a value above zero", title)
	}
	xLow, xHigh := decades(xs)
	yLow, yHigh := decades(ys)
	right, low := plotWidth-plotRight, plotHeight-plotLow
	atX := func(x float64) float64 {
		return plotLeft + (math.Log10(x)-float64(xLow))/float64(xHigh-xLow)*(right-plotLeft)
	}
	atY := func(y float64) float64 {
		return low - (math.Log10(y)-float64(yLow))/float64(yHigh-yLow)*(low-plotTop)
	}
	w := bufio.NewWriter(to)
	fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" font-family=\"sans-serif\" font-size=\"13\">\n", plotWidth, plotHeight)
	fmt.Fprintf(w, "<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n", escape(title))
	text := func(x, y float64, anchor, more, s string) {
		fmt.Fprintf(w, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"#1f2937\"%s>%s</text>\n", x, y, anchor, more, escape(s))
	}
	text(plotLeft, 28, "start", ` font-size="16"`, title)
	grid := func(x1, y1, x2, y2 float64, whole bool) {
		colour := "#eceff3"
		if whole {
			colour = "#c3c9d2"
		}
		fmt.Fprintf(w, "<path d=\"M%.1f %.1fL%.1f %.1f\" stroke=\"%s\"/>\n", x1, y1, x2, y2, colour)
	}
	ticks(xLow, xHigh, func(v float64, whole bool) {
		grid(atX(v), plotTop, atX(v), low, whole)
		if whole {
			text(atX(v), low+20, "middle", "", number(v))
		}
	})
	ticks(yLow, yHigh, func(v float64, whole bool) {
		grid(plotLeft, atY(v), right, atY(v), whole)
		if whole {
			text(plotLeft-8, atY(v)+4, "end", "", number(v))
		}
	})
	text((plotLeft+right)/2, plotHeight-14, "middle", "", xName)
	text(18, (plotTop+low)/2, "middle", fmt.Sprintf(` transform="rotate(-90 18 %.1f)"`, (plotTop+low)/2), yName)
	for i, l := range lines {
		draw(w, l, atX, atY)
		y := plotTop + 22 + 20*float64(i)
		fmt.Fprintf(w, "<path d=\"M%.1f %.1fh28\" %s/>\n", plotLeft+14, y-4, stroke(l))
		text(plotLeft+50, y, "start", "", l.name)
	}
	fmt.Fprintln(w, "</svg>")
	return w.Flush()
}

func stroke(l line) string {
	s := fmt.Sprintf("fill=\"none\" stroke=\"%s\" stroke-width=\"2\"", escape(l.colour))
	if l.dashed {
		s += " stroke-dasharray=\"6 4\""
	}
	return s
}

// draw writes the line itself, and a dot for each value that was measured.
func draw(w io.Writer, l line, atX, atY func(float64) float64) {
	points := positive(l.points)
	if len(points) == 0 {
		return
	}
	var path strings.Builder
	for i, p := range points {
		step := "L"
		if i == 0 {
			step = "M"
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", step, atX(p.x), atY(p.y))
	}
	fmt.Fprintf(w, "<path d=\"%s\" %s/>\n", path.String(), stroke(l))
	if l.dashed {
		return
	}
	for _, p := range points {
		fmt.Fprintf(w, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"><title>%s: %s</title></circle>\n", atX(p.x), atY(p.y), escape(l.colour), number(p.x), number(p.y))
	}
}

// ticks names 1 to 9 times each power of ten from 10^low to 10^high.
func ticks(low, high int, at func(v float64, whole bool)) {
	for d := low; d <= high; d++ {
		for n := 1; n <= 9 && (d < high || n == 1); n++ {
			at(float64(n)*math.Pow10(d), n == 1)
		}
	}
}

// number writes a value with the digits that are needed, thousands apart.
func number(v float64) string {
	if v < 1000 {
		return fmt.Sprintf("%.4g", v)
	}
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a strings.Builder takes everything
	return b.String()
}
