// Package certificate manages one certificate that a cluster signs: it requests
// the first one, and renews it in time.
//
// It owns the files of that certificate in a directory and the time of its
// renewal. It reads what the certificate should contain from its Config, and gets
// it signed by the Signer there. It never contacts an API server itself, and never
// signs anything.
package certificate
