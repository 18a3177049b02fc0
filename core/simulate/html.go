package simulate

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"
)

//go:embed report.html.tmpl
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"clock":  func(t time.Time) string { return t.Format("15:04:05") },
	"usd":    func(x float64) string { return fmt.Sprintf("%.4f", x) },
	"hours":  func(x float64) string { return fmt.Sprintf("%.2f", x) },
	"ending": func(reason string) string { return endings[reason] },
	"chart":  func(d pageData, name string, c chart) chartData { return chartData{d, name, c} },
}).Parse(page))

// Sizes of the drawings, in user units of the SVG.
const (
	chartWidth  = 1000.0
	chartLeft   = 64.0
	chartHeight = 170.0
	rowHeight   = 22.0
)

type bar struct {
	Y, X, W     float64
	Boot        float64 // width of the time until the node joined
	WarnX       float64 // 0 = it was never warned
	TextX       float64
	Inside      bool // the text stands in the bar
	Before      bool // or left of it, where there is no room on the right
	Class, Text string
	Title       string
}

type tick struct {
	X, Y   float64
	Text   string
	Anchor string
}

type chart struct {
	Paths  []path
	Ticks  []tick // of the vertical axis
	Height float64
}

type path struct{ Class, D string }

type chartData struct {
	pageData
	Name  string
	Chart chart
}

type pageData struct {
	*Report
	Width, Left, RowsHeight float64
	Bars                    []bar
	Times                   []tick
	Marks                   []tick // steps of the scenario
	Pods, Cost              chart
	Told                    []Happening
}

// WriteHTML writes the report as one page that needs nothing from elsewhere: the
// machines over time, waiting and running pods, the cost, the bill and the happenings.
func WriteHTML(w io.Writer, r *Report) error {
	span := max(r.End.Sub(r.Start), time.Second)
	x := func(t time.Time) float64 {
		return chartLeft + (chartWidth-chartLeft-8)*min(max(float64(t.Sub(r.Start))/float64(span), 0), 1)
	}
	d := pageData{Report: r, Width: chartWidth, Left: chartLeft, RowsHeight: rowHeight * float64(max(len(r.Bill), 1))}
	for i, n := range r.Bill {
		b := bar{Y: float64(i) * rowHeight, X: x(n.Launched), Class: n.CapacityType, Text: n.InstanceType + " " + n.Zone[max(len(n.Zone)-2, 0):],
			Title: fmt.Sprintf("%s\n%s %s %s %s\n%s to %s, %.4f USD", n.Node, n.Pool, n.InstanceType, n.Zone, n.CapacityType, n.From.Format("15:04:05"), n.To.Format("15:04:05"), n.USD)}
		b.W = max(x(n.To)-b.X, 1)
		b.Boot = b.W
		if !n.Registered.IsZero() {
			b.Boot = max(min(x(n.Registered)-b.X, b.W), 0)
		}
		switch need := 7 * float64(len(b.Text)); {
		case b.W-b.Boot > need:
			b.TextX, b.Inside = b.X+b.Boot+6, true
		case b.X+b.W+need < chartWidth:
			b.TextX = b.X + b.W + 6
		default:
			b.TextX, b.Before = b.X-6, true
		}
		if !n.Warned.IsZero() {
			b.WarnX = x(n.Warned)
		}
		d.Bars = append(d.Bars, b)
	}
	for i := range 9 {
		t := r.Start.Add(span * time.Duration(i) / 8)
		anchor := "middle"
		if i == 8 {
			anchor = "end"
		}
		d.Times = append(d.Times, tick{X: x(t), Text: t.Format("15:04"), Anchor: anchor})
	}
	for _, h := range r.Happenings {
		if h.Kind == "step" {
			d.Marks = append(d.Marks, tick{X: x(h.At), Text: h.Text})
		}
		if !h.Detail {
			d.Told = append(d.Told, h)
		}
	}
	pods, cost := 1.0, 0.01
	for _, s := range r.Samples {
		pods = max(pods, float64(max(s.Pending, s.Running)))
		cost = max(cost, s.USDPerHour)
	}
	d.Pods = chart{Height: chartHeight, Ticks: axis(pods, "%.0f"), Paths: []path{
		{"running", steps(r, x, pods, func(s Sample) float64 { return float64(s.Running) })},
		{"pending", steps(r, x, pods, func(s Sample) float64 { return float64(s.Pending) })}}}
	d.Cost = chart{Height: chartHeight, Ticks: axis(cost, "%.2f"), Paths: []path{{"cost", steps(r, x, cost, func(s Sample) float64 { return s.USDPerHour })}}}
	if err := pageTemplate.Execute(w, d); err != nil {
		return fmt.Errorf("report page: %w", err)
	}
	return nil
}

func level(v, top float64) float64 { return chartHeight - 4 - (chartHeight-30)*v/top }

func axis(top float64, format string) []tick {
	var out []tick
	for i := range 3 {
		v := top * float64(i) / 2
		out = append(out, tick{Y: level(v, top), Text: fmt.Sprintf(format, v)})
	}
	return out
}

// steps draws a value that stays until the next sample.
func steps(r *Report, x func(time.Time) float64, top float64, value func(Sample) float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "M%.1f %.1f", x(r.Start), level(0, top))
	for _, s := range r.Samples {
		fmt.Fprintf(&b, "H%.1fV%.1f", x(s.At), level(value(s), top))
	}
	fmt.Fprintf(&b, "H%.1fV%.1fZ", x(r.End), level(0, top))
	return b.String()
}
