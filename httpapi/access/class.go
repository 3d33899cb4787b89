package access

import (
	"fmt"
	"strings"
)

// Class is what a caller must be allowed to do to use a route; a set of classes
// is what a caller, or whoever reaches a listener, is allowed.
type Class uint8

// The classes.
const (
	// Health routes tell only whether the daemon lives.
	Health Class = 1 << iota
	// Metrics routes give numbers: what is used, how often what happened.
	Metrics
	// Read routes show pods, their specs, events and faults, and the names of
	// Secrets, never what those hold.
	Read
	// Logs routes show what containers print. Programs print what no spec
	// shows, secrets too, so a listener that is open to readers of states need
	// not be open to readers of logs; with Kubernetes' RBAC, pods/log is granted
	// apart from pods as well.
	Logs
	// Exec routes let the caller into a container: exec, attach, run, port
	// forwarding.
	Exec
	// Admin routes change something on the node, or show what only its owner
	// may see: Secrets, the host's logs, memory.
	Admin
)

// All is every class.
const All = Health | Metrics | Read | Logs | Exec | Admin

// Has says whether all classes of c are in the set.
func (set Class) Has(c Class) bool { return set&c == c }

// Role is a set of classes with a name.
type Role string

// The roles. Each may do what the one before may.
const (
	RoleRead  Role = "read"
	RoleExec  Role = "exec"
	RoleAdmin Role = "admin"
)

// ParseRole reads the name of a role.
func ParseRole(text string) (Role, error) {
	switch r := Role(text); r {
	case RoleRead, RoleExec, RoleAdmin:
		return r, nil
	}
	return "", fmt.Errorf("%q is no role; must be read, exec or admin", text)
}

// Classes are what the role may do; an unknown role may do nothing.
func (r Role) Classes() Class {
	read := Health | Metrics | Read | Logs
	switch r {
	case RoleRead:
		return read
	case RoleExec:
		return read | Exec
	case RoleAdmin:
		return All
	}
	return 0
}

// String names the classes of the set.
func (set Class) String() string {
	var names []string
	for i, name := range []string{"health", "metrics", "read", "logs", "exec", "admin"} {
		if set.Has(1 << i) {
			names = append(names, name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, "|")
}
