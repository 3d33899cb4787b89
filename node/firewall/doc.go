// Package firewall protects services of the host that listen only on loopback addresses, and lets
// pods reach their name server.
//
// The CNI plugin portmap sets net.ipv4.conf.IFACE.route_localnet, so that host ports work at
// 127.0.0.1. With this setting the kernel also delivers packets to 127.0.0.0/8 that arrive from
// pods and from neighbors on the link (CVE-2020-8558). A rule in a chain of podstead's own drops
// them. IPv6 needs no such rule: the kernel never delivers packets to ::1 from a link.
//
// A host that closes its ports to all but a few would also close that of the name server, which
// pods are given as their only one; and a pod with the host port 53 would get the queries of all
// other pods, because its host port is open at every address of the host. Rules in further chains
// of podstead's own prevent both.
//
// It owns these chains. It reads the state of the kernel each time and keeps none. It never changes
// a rule but its own.
package firewall
