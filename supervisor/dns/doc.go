// Package dns is how a pod is named, and how it finds the names of others.
//
// It owns the rules of hostnames, of the resolv.conf that a pod gets by its
// dnsPolicy and dnsConfig, and of what its /etc/hosts says. It reads the
// host's resolv.conf and hosts file, anew for each pod that starts, so that a
// change of the host's is seen by the pods that start after it.
//
// It never writes a file, never asks a name server, and decides nothing about
// pods.
package dns
