package certificate

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/netip"
	"slices"
)

// Subject is what a certificate should contain.
type Subject struct {
	User, Group string
	// Names and Addresses are those of a server; a client has none.
	Names     []string
	Addresses []netip.Addr
}

// sorted returns the subject with its names sorted, each once.
func (s Subject) sorted() Subject {
	s.Names, s.Addresses = slices.Clone(s.Names), slices.Clone(s.Addresses)
	slices.Sort(s.Names)
	slices.SortFunc(s.Addresses, netip.Addr.Compare)
	s.Names, s.Addresses = slices.Compact(s.Names), slices.Compact(s.Addresses)
	return s
}

func (s Subject) equal(o Subject) bool {
	return s.User == o.User && s.Group == o.Group && slices.Equal(s.Names, o.Names) &&
		slices.Equal(s.Addresses, o.Addresses)
}

// server reports whether this is the subject of a server.
func (s Subject) server() bool { return len(s.Names)+len(s.Addresses) > 0 }

// subjectOf returns the subject of a certificate.
func subjectOf(cert *x509.Certificate) Subject {
	s := Subject{User: cert.Subject.CommonName, Names: cert.DNSNames}
	if len(cert.Subject.Organization) > 0 {
		s.Group = cert.Subject.Organization[0]
	}
	for _, ip := range cert.IPAddresses {
		if a, ok := netip.AddrFromSlice(ip); ok {
			s.Addresses = append(s.Addresses, a.Unmap())
		}
	}
	return s.sorted()
}

// Request is a certificate request.
type Request struct {
	// Name is the same for the same content, so that an earlier request is found
	// again.
	Name string
	// PEM is the PKCS #10 request.
	PEM []byte
}

// request creates a request for that key.
func request(s Subject, key *ecdsa.PrivateKey) (Request, error) {
	template := x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: s.User, Organization: []string{s.Group}},
		DNSNames: s.Names,
	}
	for _, a := range s.Addresses {
		template.IPAddresses = append(template.IPAddresses, a.AsSlice())
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	if err != nil {
		return Request{}, fmt.Errorf("failed to create a certificate request: %w", err)
	}
	parsed, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return Request{}, err
	}
	// Without the signature, which is random.
	sum := sha256.Sum256(parsed.RawTBSCertificateRequest)
	return Request{
		Name: "node-csr-" + hex.EncodeToString(sum[:16]),
		PEM:  pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
	}, nil
}

// Same reports whether two requests in PEM have the same content.
func Same(a, b []byte) bool {
	x, y := content(a), content(b)
	return x != nil && slices.Equal(x, y)
}

func content(text []byte) []byte {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil
	}
	return r.RawTBSCertificateRequest
}
