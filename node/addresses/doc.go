// Package addresses finds the addresses of the node.
//
// It owns the choice: the configured addresses, or those of the interfaces of the
// default routes. It reads the kernel's tables of addresses and routes through
// netlink, which also notifies about changes; while nothing changes it does
// nothing.
//
// It never changes an address or a route.
package addresses
