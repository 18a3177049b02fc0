package simulate

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestPageStandsAlone(t *testing.T) {
	t.Parallel()
	r := playDemo(t, options(t))
	var b bytes.Buffer
	if err := WriteHTML(&b, r); err != nil {
		t.Fatal(err)
	}
	if path := os.Getenv("WEIR_REPORT_PAGE"); path != "" {
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	page := b.String()
	if m := regexp.MustCompile(`(?i)(src|href)\s*=|url\(|@import|https?://`).FindString(page); m != "" {
		t.Errorf("the page needs something from elsewhere: %q", m)
	}
	for _, n := range r.Bill {
		if !strings.Contains(page, n.Node) {
			t.Errorf("node %s is not on the page", n.Node)
		}
	}
	// the drawings are well-formed and have a bar for each machine
	bars := 0
	for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1) {
		dec := xml.NewDecoder(strings.NewReader(svg))
		for {
			tok, err := dec.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("drawing: %v", err)
			}
			if e, ok := tok.(xml.StartElement); ok && e.Name.Local == "rect" {
				for _, a := range e.Attr {
					if a.Name.Local == "class" && (a.Value == "spot" || a.Value == "on-demand") {
						bars++
					}
				}
			}
		}
	}
	if bars != len(r.Bill) {
		t.Errorf("%d bars for %d machines", bars, len(r.Bill))
	}
}

func TestPageEscapes(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	err := WriteHTML(&b, &Report{Title: "<script>alert(1)</script>", Happenings: []Happening{{Kind: "event", Text: "<img src=x>", Why: `"><i>`}}})
	if err != nil {
		t.Fatal(err)
	}
	if s := b.String(); strings.Contains(s, "<script>") || strings.Contains(s, "<img") || strings.Contains(s, `"><i>`) {
		t.Error("what was told is on the page as it is")
	}
}
