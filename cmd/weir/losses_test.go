package main

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestLossesInTheGuide runs the commands beside the table of the guide and holds the
// table against what they print, to a tenth; resilient loses less, and is dearer.
func TestLossesInTheGuide(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(strategyGuide)
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join("..", "..")
	total := regexp.MustCompile(`(?m)^total .* ([0-9.]+)$`)
	lost := regexp.MustCompile(`lost with a machine ([0-9]+)`)
	var figures []float64
	for _, name := range []string{"cost-optimal", "resilient"} {
		command := "simulate run -f docs/examples/losses/cluster.yaml --scenario docs/examples/losses/scenario.yaml --strategy " + name
		if !strings.Contains(string(page), "\nweir "+command+"\n") {
			t.Errorf("the guide does not have the command weir %s", command)
		}
		args := strings.Fields(strings.ReplaceAll(command, "docs/", filepath.Join(root, "docs")+"/"))
		code, out, errs := weir(args...)
		if code != 0 {
			t.Fatalf("weir %s: %d, %s", command, code, errs)
		}
		bill, pods := total.FindStringSubmatch(out), lost.FindStringSubmatch(out)
		if bill == nil || pods == nil {
			t.Fatalf("no bill, or no lost pods, in\n%s", out)
		}
		row := regexp.MustCompile("(?m)^\\| `" + name + "` \\| ([0-9]+) \\| ([0-9.]+) \\|$").FindStringSubmatch(string(page))
		if row == nil || !near(row[1], pods[1]) || !near(row[2], bill[1]) {
			t.Errorf("the guide says %q; its line is to be | `%s` | %s | %s |", row, name, pods[1], bill[1])
		}
		figures = append(figures, number(pods[1]), number(bill[1]))
	}
	if len(figures) == 4 && (figures[2] > 0.7*figures[0] || figures[3] > 1.4*figures[1]) {
		t.Errorf("resilient loses %v pods of %v, for %v USD instead of %v", figures[2], figures[0], figures[3], figures[1])
	}
}

func number(s string) float64 {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return math.NaN()
	}
	return x
}

// near allows a table for a tenth: what plans cost changes a little with every change of
// the engine, and the table need not.
func near(told, is string) bool { return math.Abs(number(told)-number(is)) <= 0.1*number(is) }
