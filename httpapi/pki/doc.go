// Package pki makes the certificates that podstead answers with and those that
// its own clients prove themselves with.
//
// It owns a folder with two authorities, one for servers and one for clients,
// and the serving certificate, which it renews when somebody connects. It reads
// certificate files that others keep, and never sends anything anywhere.
package pki
