package certificate

import (
	"crypto/tls"
	"time"
)

// checkInterval is the maximum time between two checks of the clock: it may have
// been set, or the host may have been suspended.
const checkInterval = time.Hour

// due returns how long the certificate is good for its subject; 0 requests another
// one now. chance, from 0 to 1, sets the time between 70 and 90 % of its lifetime,
// as at the kubelet, so that the nodes of a cluster do not renew all at once.
func due(cert *tls.Certificate, want Subject, chance float64, now time.Time) time.Duration {
	if cert == nil || want.server() && !subjectOf(cert.Leaf).equal(want.sorted()) {
		return 0
	}
	life := cert.Leaf.NotAfter.Sub(cert.Leaf.NotBefore)
	at := cert.Leaf.NotBefore.Add(time.Duration(float64(life) * (0.7 + 0.2*chance)))
	return max(0, at.Sub(now))
}

// Expired reports whether a certificate has expired.
func Expired(cert *tls.Certificate, now time.Time) bool { return now.After(cert.Leaf.NotAfter) }
