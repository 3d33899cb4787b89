package certificate

import (
	"crypto/tls"
	"time"
)

// look is how long at most the clock is not looked at: it may have been set, or
// the box have slept.
const look = time.Hour

// due is how long the certificate is good for what it should say; 0 asks for
// another now. Chance, from 0 to 1, puts the time between 70 and 90 % of its life,
// as the kubelet does, so that the nodes of a cluster do not ask all at once.
func due(cert *tls.Certificate, want Subject, chance float64, now time.Time) time.Duration {
	if cert == nil || want.server() && !of(cert.Leaf).equal(want.sorted()) {
		return 0
	}
	life := cert.Leaf.NotAfter.Sub(cert.Leaf.NotBefore)
	at := cert.Leaf.NotBefore.Add(time.Duration(float64(life) * (0.7 + 0.2*chance)))
	return max(0, at.Sub(now))
}

// Expired tells whether a certificate has ended.
func Expired(cert *tls.Certificate, now time.Time) bool { return now.After(cert.Leaf.NotAfter) }
