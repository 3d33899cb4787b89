// Package pki issues the serving certificate of podstead and the client certificates of
// kubeconfigs.
//
// It owns a directory with two CAs, one for servers and one for clients, and the serving
// certificate, which it renews when a client connects. It also reads certificate files that
// are managed outside of podstead. It never uses the network.
package pki
