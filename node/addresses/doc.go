// Package addresses knows the addresses of the node.
//
// It owns the answer to which they are: those that were given, or those of the
// interfaces over which the default routes lead. It reads the kernel's tables
// of addresses and routes through netlink, which also tells when to look again;
// while nothing changes it does nothing.
//
// It never changes an address or a route.
package addresses
