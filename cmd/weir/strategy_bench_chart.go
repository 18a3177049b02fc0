package main

import (
	"encoding/xml"
	"fmt"
	"html/template"
	"io"
	"strings"
)

// Size of the chart in pixels.
const (
	chartWidth, chartHeight = 860.0, 420.0
	chartLeft, chartRight   = 70.0, 20.0
	chartTop, chartLow      = 50.0, 60.0
	maxBars                 = 12 // problems that are shown as bars; more are lines
)

var chartColours = []string{"#0b62a4", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#0e7490", "#be123c", "#4b5563"}

func trimRight(s string) string { return strings.TrimRight(s, " ") }

// chartText is text for XML.
func chartText(s string) string {
	var b strings.Builder
	// a Builder does not fail
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}

// writeSVG draws what each strategy's plan costs in relation to the lower bound, for every
// problem that has one: bars, or lines where there are many.
func (r *benchReport) writeSVG(w io.Writer) error {
	l := &textLines{w: w}
	top := 1.0
	for _, p := range r.Problems {
		for _, a := range p.Answers {
			if p.LowerBoundUSDPerHour > 0 {
				top = max(top, a.USDPerHour/p.LowerBoundUSDPerHour)
			}
		}
	}
	top *= 1.05
	height := chartHeight - chartTop - chartLow
	width := chartWidth - chartLeft - chartRight
	y := func(ratio float64) float64 { return chartHeight - chartLow - height*ratio/top }
	l.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" font-family="sans-serif" font-size="12">`+"\n", chartWidth, chartHeight)
	l.printf(`<rect width="%g" height="%g" fill="#ffffff"/>`+"\n", chartWidth, chartHeight)
	l.printf(`<text x="%g" y="20" font-size="14">Market price of each plan, times the proven lower bound</text>`+"\n", chartLeft)
	for i := range 5 {
		ratio := top * float64(i) / 4
		l.printf(`<line x1="%g" x2="%g" y1="%.1f" y2="%.1f" stroke="#e5e7eb"/><text x="%g" y="%.1f" text-anchor="end">%.2f</text>`+"\n",
			chartLeft, chartWidth-chartRight, y(ratio), y(ratio), chartLeft-6, y(ratio)+4, ratio)
	}
	l.printf(`<line x1="%g" x2="%g" y1="%.1f" y2="%.1f" stroke="#6b7280" stroke-dasharray="4 3"/>`+"\n", chartLeft, chartWidth-chartRight, y(1), y(1))
	each := width / float64(len(r.Problems))
	if len(r.Problems) <= maxBars {
		r.bars(l, each, y)
	} else {
		r.curves(l, each, y)
	}
	for i, t := range r.Strategies {
		x := chartLeft + float64(i)*width/float64(len(r.Strategies))
		l.printf(`<rect x="%.1f" y="30" width="10" height="10" fill="%s"/><text x="%.1f" y="39">%s</text>`+"\n", x, colour(i), x+14, chartText(t.Name))
	}
	l.printf("</svg>\n")
	return l.err
}

func colour(i int) string { return chartColours[i%len(chartColours)] }

func (r *benchReport) bars(l *textLines, each float64, y func(float64) float64) {
	for i, p := range r.Problems {
		left := chartLeft + float64(i)*each
		bar := each * 0.8 / float64(max(1, len(p.Answers)))
		for k, a := range p.Answers {
			if p.LowerBoundUSDPerHour <= 0 {
				continue
			}
			ratio := a.USDPerHour / p.LowerBoundUSDPerHour
			x := left + each*0.1 + float64(k)*bar
			l.printf(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s, %s: %.4f USD/h, %d nodes, %d pods without a place</title></rect>`+"\n",
				x, y(ratio), bar*0.92, y(0)-y(ratio), colour(k), chartText(p.Name), chartText(a.Strategy), a.USDPerHour, a.Nodes, a.Unplaced)
			if a.Unplaced > 0 {
				l.printf(`<text x="%.1f" y="%.1f" text-anchor="middle" font-size="10">%d left</text>`+"\n", x+bar/2, y(ratio)-3, a.Unplaced)
			}
		}
		l.printf(`<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", left+each/2, chartHeight-chartLow+18, chartText(short(p.Name, int(each/6.5))))
	}
}

func (r *benchReport) curves(l *textLines, each float64, y func(float64) float64) {
	for k := range r.Strategies {
		var points []string
		for i, p := range r.Problems {
			if p.LowerBoundUSDPerHour > 0 {
				points = append(points, fmt.Sprintf("%.1f,%.1f", chartLeft+(float64(i)+0.5)*each, y(p.Answers[k].USDPerHour/p.LowerBoundUSDPerHour)))
			}
		}
		l.printf(`<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", strings.Join(points, " "), colour(k))
	}
	l.printf(`<text x="%.1f" y="%.1f" text-anchor="middle">%d problems, in the order of their time</text>`+"\n", chartWidth/2, chartHeight-chartLow+18, len(r.Problems))
}

// short cuts a text in the middle, where names of files differ least.
func short(s string, limit int) string {
	runes := []rune(s)
	if len(runes) <= limit || limit < 5 {
		return s
	}
	return string(runes[:limit/2-1]) + "…" + string(runes[len(runes)-limit/2:])
}

var benchPage = template.Must(template.New("bench").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Strategies against each other</title>
<style>body{font-family:sans-serif;margin:2em;max-width:70em}table{border-collapse:collapse}td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #e5e7eb}
td:first-child,th:first-child,td:nth-child(3),th:nth-child(3){text-align:left}</style></head><body>
<h1>Strategies against each other</h1>
<p>{{range $i, $s := .Strategies}}{{if $i}}, {{end}}{{$s.Name}} {{$s.Version}}{{end}}; {{len .Problems}} problems.</p>
{{.Chart}}
<table><thead><tr>{{range .Head}}<th>{{.}}</th>{{end}}</tr></thead>
<tbody>{{range .Rows}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>
{{end}}</tbody></table>
{{range .Warnings}}<p>Warning: {{.}}</p>
{{end}}</body></html>
`))

// writeHTML is the chart and the table as one page.
func (r *benchReport) writeHTML(w io.Writer) error {
	var chart strings.Builder
	if err := r.writeSVG(&chart); err != nil {
		return err
	}
	rows := r.rows()
	return benchPage.Execute(w, struct {
		*benchReport
		Chart template.HTML // our own, with all texts escaped
		Head  []string
		Rows  [][]string
	}{r, template.HTML(chart.String()), rows[0], rows[1:]})
}
