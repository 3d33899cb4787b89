// Package dns computes the names of a pod and the DNS settings that it gets.
//
// It owns the rules of host names, of the resolv.conf that a pod gets by its
// dnsPolicy and dnsConfig, and of the content of its /etc/hosts. It reads the host's
// resolv.conf and hosts file for each pod that starts, so that pods which start after
// a change of these files see it.
//
// It never writes a file, never queries a name server, and decides nothing about pods.
package dns
