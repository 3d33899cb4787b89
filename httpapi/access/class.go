package access

import (
	"fmt"
	"strings"
)

// Class is the permission that a route requires. A set of classes is what a caller, or
// every caller of a listener, is allowed.
type Class uint8

// The access classes.
const (
	// Health routes report only the health of the daemon.
	Health Class = 1 << iota
	// Metrics routes report numbers: resource usage and counters.
	Metrics
	// Read routes show pods, their specs, events and manifest faults, and the names of
	// Secrets, but never their data.
	Read
	// Logs routes show the output of containers. Programs print what no spec shows,
	// secrets too, so that a listener for Read need not serve Logs. Kubernetes' RBAC also
	// grants pods/log separately from pods.
	Logs
	// Exec routes give access to a container: exec, attach, run and port forwarding.
	Exec
	// Write routes change the manifests, and show the data of Secrets, which every pod that a
	// caller of this class writes may mount.
	Write
	// Admin routes change the node otherwise, or show what only its owner may see: the host's
	// logs, memory.
	Admin
)

// All is every class.
const All = Health | Metrics | Read | Logs | Exec | Write | Admin

// Has reports whether the set contains all classes of c.
func (set Class) Has(c Class) bool { return set&c == c }

// Role is a named set of classes.
type Role string

// The roles. Each includes the previous one.
const (
	RoleRead  Role = "read"
	RoleExec  Role = "exec"
	RoleEdit  Role = "edit"
	RoleAdmin Role = "admin"
)

// ParseRole parses the name of a role.
func ParseRole(text string) (Role, error) {
	switch r := Role(text); r {
	case RoleRead, RoleExec, RoleEdit, RoleAdmin:
		return r, nil
	}
	return "", fmt.Errorf("unknown role %q; must be read, exec, edit or admin", text)
}

// Classes returns the classes of the role, none for an unknown role.
func (r Role) Classes() Class {
	read := Health | Metrics | Read | Logs
	switch r {
	case RoleRead:
		return read
	case RoleExec:
		return read | Exec
	case RoleEdit:
		return read | Exec | Write
	case RoleAdmin:
		return All
	}
	return 0
}

// String returns the names of the classes in the set, separated by |.
func (set Class) String() string {
	var names []string
	for i, name := range []string{"health", "metrics", "read", "logs", "exec", "write", "admin"} {
		if set.Has(1 << i) {
			names = append(names, name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, "|")
}
