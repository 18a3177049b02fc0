package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// certLifetime is long enough for a demonstration that is left running.
const certLifetime = 365 * 24 * time.Hour

// keyPair is a certificate with its private key, in memory and as PEM.
type keyPair struct {
	cert            *x509.Certificate
	key             *ecdsa.PrivateKey
	certPEM, keyPEM []byte
}

// newKeyPair completes the template with key, serial number and life time and
// signs it with ca, or with itself when ca is nil.
func newKeyPair(tmpl *x509.Certificate, ca *keyPair) (*keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("%s: make key: %w", tmpl.Subject.CommonName, err)
	}
	tmpl.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("%s: make serial number: %w", tmpl.Subject.CommonName, err)
	}
	now := time.Now()
	tmpl.NotBefore, tmpl.NotAfter = now.Add(-time.Hour), now.Add(certLifetime)
	parent, signer := tmpl, crypto.Signer(key)
	if ca != nil {
		parent, signer = ca.cert, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, parent, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("%s: sign certificate: %w", tmpl.Subject.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%s: read own certificate: %w", tmpl.Subject.CommonName, err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("%s: encode key: %w", tmpl.Subject.CommonName, err)
	}
	return &keyPair{
		cert: cert, key: key,
		certPEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		keyPEM:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

func newCA(name string) (*keyPair, error) {
	return newKeyPair(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}, nil)
}

func newServingCert(ca *keyPair) (*keyPair, error) {
	return newKeyPair(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "devcluster"},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)},
	}, ca)
}

// newClientCert names a user by common name and the user's groups by organisation.
func newClientCert(ca *keyPair, user string, groups ...string) (*keyPair, error) {
	return newKeyPair(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca)
}

// save writes <dir>/<name>.crt and <dir>/<name>.key.
func (k *keyPair) save(dir, name string) error {
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), k.certPEM, 0o644); err != nil {
		return fmt.Errorf("write certificate: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".key"), k.keyPEM, 0o600); err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	return nil
}

// pki is everything the components need to trust each other.
type pki struct {
	ca, frontProxyCA, frontProxyClient, serving, serviceAccount *keyPair
}

func newPKI() (*pki, error) {
	var p pki
	var err error
	if p.ca, err = newCA("devcluster-ca"); err != nil {
		return nil, err
	}
	if p.frontProxyCA, err = newCA("devcluster-front-proxy-ca"); err != nil {
		return nil, err
	}
	if p.frontProxyClient, err = newClientCert(p.frontProxyCA, "front-proxy-client"); err != nil {
		return nil, err
	}
	if p.serving, err = newServingCert(p.ca); err != nil {
		return nil, err
	}
	// Only its key matters: it signs the tokens of service accounts.
	if p.serviceAccount, err = newCA("devcluster-service-accounts"); err != nil {
		return nil, err
	}
	return &p, nil
}

func (p *pki) save(dir string) error {
	for _, f := range []struct {
		name string
		pair *keyPair
	}{
		{"ca", p.ca}, {"front-proxy-ca", p.frontProxyCA}, {"front-proxy-client", p.frontProxyClient},
		{"serving", p.serving}, {"service-account", p.serviceAccount},
	} {
		if err := f.pair.save(dir, f.name); err != nil {
			return err
		}
	}
	return nil
}

// writeKubeconfig writes a kubeconfig with a fresh client certificate for user.
func (p *pki) writeKubeconfig(path, url, user string, groups ...string) error {
	client, err := newClientCert(p.ca, user, groups...)
	if err != nil {
		return err
	}
	const name = "devcluster"
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters[name] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: p.ca.certPEM}
	cfg.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: client.certPEM, ClientKeyData: client.keyPEM}
	cfg.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user}
	cfg.CurrentContext = name
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		return fmt.Errorf("write kubeconfig of %s: %w", user, err)
	}
	return nil
}
