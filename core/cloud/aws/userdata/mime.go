package userdata

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"strings"
)

const typeScript = `text/x-shellscript; charset="us-ascii"`

// part is a document of a MIME archive.
type part struct{ kind, body string }

// userParts takes the user's text apart: a MIME archive into its documents, anything else is one. NodeConfigs are known by
// their content where the family has them.
func userParts(text string, nodeConfigs bool) ([]part, error) {
	text = strings.ReplaceAll(text, "\r", "")
	trimmed := strings.TrimSpace(text)
	switch {
	case trimmed == "":
		return nil, nil
	case strings.HasPrefix(trimmed, "MIME-Version:"), strings.HasPrefix(trimmed, "Content-Type:"):
		return readArchive(trimmed + "\n")
	case strings.HasPrefix(trimmed, "#cloud-config"):
		return []part{{kind: `text/cloud-config; charset="us-ascii"`, body: text}}, nil
	}
	if nodeConfigs && !strings.HasPrefix(trimmed, "#!") {
		is, err := nodeConfigOf(text)
		if err != nil {
			return nil, err
		}
		if is {
			return []part{{kind: typeNodeConfig, body: text}}, nil
		}
	}
	return []part{{kind: typeScript, body: text}}, nil
}

func readArchive(text string) ([]part, error) {
	msg, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		return nil, bad("MIME archive: %v", err)
	}
	kind, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil {
		return nil, bad("MIME archive: Content-Type: %v", err)
	}
	if !strings.HasPrefix(kind, "multipart/") {
		body, err := io.ReadAll(msg.Body)
		if err != nil {
			return nil, bad("MIME archive: %v", err)
		}
		return []part{{kind: msg.Header.Get("Content-Type"), body: string(body)}}, nil
	}
	if params["boundary"] == "" {
		return nil, bad("MIME archive: Content-Type %s has no boundary", kind)
	}
	var out []part
	for r := multipart.NewReader(msg.Body, params["boundary"]); ; {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, bad("MIME archive, document %d: %v", len(out)+1, err)
		}
		body, err := io.ReadAll(p)
		if err != nil {
			return nil, bad("MIME archive, document %d: %v", len(out)+1, err)
		}
		if e := p.Header.Get("Content-Transfer-Encoding"); e != "" && !strings.EqualFold(e, "7bit") && !strings.EqualFold(e, "8bit") && !strings.EqualFold(e, "binary") {
			return nil, bad("MIME archive, document %d: Content-Transfer-Encoding %s, expected none, 7bit, 8bit or binary", len(out)+1, e)
		}
		t := p.Header.Get("Content-Type")
		if t == "" {
			t = typeScript
		}
		out = append(out, part{kind: t, body: string(body)})
	}
}

// archive writes documents in order. The boundary is // unless a document has such a line.
func archive(parts []part) []byte {
	boundary := "//"
	for slashed := func(p part) bool { return strings.Contains("\n"+p.body, "\n--"+boundary) }; ; boundary += "/" {
		found := false
		for _, p := range parts {
			found = found || slashed(p)
		}
		if !found {
			break
		}
	}
	var b bytes.Buffer
	b.WriteString("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"" + boundary + "\"\n\n")
	for _, p := range parts {
		b.WriteString("--" + boundary + "\nContent-Type: " + p.kind + "\n\n")
		b.WriteString(strings.TrimRight(p.body, "\n"))
		b.WriteString("\n\n")
	}
	b.WriteString("--" + boundary + "--\n")
	return b.Bytes()
}
