package main

import (
	"bytes"
	"encoding/pem"
	"errors"
	"fmt"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// certificates is where Go and most other programs look for authorities.
const certificates = "etc/ssl/certs/ca-certificates.crt"

// baseFiles is everything but the programs.
func baseFiles() ([]file, error) {
	roots, err := authorities()
	if err != nil {
		return nil, err
	}
	passwd := fmt.Sprintf("root:x:0:0:root:/:/sbin/nologin\nweir:x:%d:%d:weir:/:/sbin/nologin\n", UserID, UserID)
	group := fmt.Sprintf("root:x:0:\nweir:x:%d:\n", UserID)
	return []file{
		{path: "etc/", mode: 0o755},
		{path: "etc/group", mode: 0o644, data: []byte(group)},
		{path: "etc/passwd", mode: 0o644, data: []byte(passwd)},
		{path: "etc/ssl/", mode: 0o755},
		{path: "etc/ssl/certs/", mode: 0o755},
		{path: certificates, mode: 0o644, data: roots},
		{path: "tmp/", mode: 0o1777},
		{path: "var/", mode: 0o755},
		{path: "var/lib/", mode: 0o755},
		{path: "var/lib/weir/", mode: 0o750, uid: UserID}, // the bolt ledger; a volume in a cluster
	}, nil
}

// authorities are the certificate authorities as PEM. One that is trusted only under
// conditions (such as a last date) is left out, because a plain file cannot say them.
func authorities() ([]byte, error) {
	var out bytes.Buffer
	for r := range bundle.Roots() {
		if r.Constraint != nil {
			continue
		}
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate}); err != nil {
			return nil, fmt.Errorf("certificate authorities: %w", err)
		}
	}
	if out.Len() == 0 {
		return nil, errors.New("certificate authorities: the bundle is empty")
	}
	return out.Bytes(), nil
}
