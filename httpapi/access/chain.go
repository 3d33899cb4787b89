package access

import (
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"sync"
	"time"
)

// The limits of a chain of client certificates. Verifying a chain costs up to 100 signature
// checks with its keys, and a client that is not authenticated chooses both.
const (
	maxIntermediates = 3
	maxKeyBits       = 4096
)

// Connection keeps what was verified about the client certificates of one TLS connection,
// so that each CA verifies them once and not with each request. The zero value is ready.
type Connection struct {
	mu       sync.Mutex
	verdicts map[*x509.CertPool]verdict
}

// verdict is the result of a verification: the end of the chain's validity, or an error.
type verdict struct {
	until time.Time
	err   error
}

// maxVerdicts is the maximum number of verdicts of a connection. A CA that is replaced
// leaves one behind.
const maxVerdicts = 8

// verify returns until when a pool of CAs accepts the chain. c may be nil.
func (c *Connection) verify(chain []*x509.Certificate, pool *x509.CertPool, external bool, now time.Time) (time.Time,
	error) {
	if c == nil {
		return verify(chain, pool, external, now)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known, ok := c.verdicts[pool]
	if !ok {
		known.until, known.err = verify(chain, pool, external, now)
		if c.verdicts == nil || len(c.verdicts) >= maxVerdicts {
			c.verdicts = map[*x509.CertPool]verdict{}
		}
		c.verdicts[pool] = known
	}
	return known.until, known.err
}

// checkChain checks that a chain may be verified.
func checkChain(chain []*x509.Certificate) error {
	if n := len(chain) - 1; n > maxIntermediates {
		return fmt.Errorf("the client sent %d intermediate certificates; at most %d are accepted", n, maxIntermediates)
	}
	for _, cert := range chain {
		if key, ok := cert.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxKeyBits {
			return fmt.Errorf("the client sent a certificate with an RSA key of %d bits; at most %d are accepted",
				key.N.BitLen(), maxKeyBits)
		}
	}
	return nil
}

// verify returns until when a chain is valid, whose first certificate is that of the client.
// The rest are intermediate certificates, which podstead's own CA never issues.
func verify(chain []*x509.Certificate, pool *x509.CertPool, external bool, now time.Time) (until time.Time, err error) {
	intermediates := x509.NewCertPool()
	if external {
		for _, c := range chain[1:] {
			intermediates.AddCert(c)
		}
	}
	verified, err := chain[0].Verify(x509.VerifyOptions{
		Roots: pool, Intermediates: intermediates, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	for _, path := range verified {
		end := path[0].NotAfter
		for _, c := range path[1:] {
			if c.NotAfter.Before(end) {
				end = c.NotAfter
			}
		}
		if end.After(until) {
			until = end
		}
	}
	return until, err
}
