// Package certificate keeps one certificate that a cluster signs: it asks for the
// first one, and for the next one in time.
//
// It owns a folder's files of that certificate and the time of its renewal. It
// reads what the certificate should say from its Config, and gets it signed by
// the Signer there. It never speaks to an API server itself, and never signs
// anything.
package certificate
