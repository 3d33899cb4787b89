// Package firewall protects services of the host that listen only on loopback addresses, and lets
// pods reach their name server.
//
// The CNI plugin portmap sets net.ipv4.conf.IFACE.route_localnet, so that host ports work at
// 127.0.0.1. With this setting the kernel also delivers packets to 127.0.0.0/8 that arrive from
// pods and from neighbors on the link (CVE-2020-8558). A rule in a chain of podstead's own drops
// them. IPv6 needs no such rule: the kernel never delivers packets to ::1 from a link.
//
// Pods have the name server of the node as their only one. It does not listen on port 53, where other
// name servers of the host may listen on all addresses. Rules in further chains of podstead's own
// lead the queries of pods to its port, open that where the host closes all but a few, and come
// before the host ports of pods, of which 53 may be one.
//
// It owns these chains. It reads the state of the kernel each time and keeps none. It never changes
// a rule but its own.
package firewall
