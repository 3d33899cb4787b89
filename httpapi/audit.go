package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"regexp"

	"golang.org/x/sys/unix"

	"github.com/podstead/podstead/httpapi/access"
)

// maxAuditCommand is the maximum number of bytes of a command in the audit log.
const maxAuditCommand = 512

// secretPath matches the paths of the Kubernetes API that return Secrets.
var secretPath = regexp.MustCompile(`^/api/v1/(namespaces/[^/]+/)?secrets(/|$)`)

// audit returns the table with a log message before each request that acts on the node or
// shows what only admins may see: sessions with containers (exec, attach, run, port-forward,
// and cp, which is an exec), everything of the classes Write and Admin, and the data of Secrets.
func audit(table []Route, log *slog.Logger) []Route {
	rows := make([]Route, 0, len(table))
	for _, route := range table {
		handle, always := route.Handle, route.Access&(access.Exec|access.Write|access.Admin) != 0
		route.Handle = func(w http.ResponseWriter, r *http.Request) {
			caller := access.CallerFrom(r.Context())
			// Without the class Write a client sees no data of Secrets.
			if always || caller.Classes.Has(access.Write) && secretPath.MatchString(r.URL.Path) {
				log.Info("Audit", auditAttributes(r, caller)...)
			}
			handle(w, r)
		}
		rows = append(rows, route)
	}
	return rows
}

// auditAttributes returns who does what. Credentials are in no attribute: they are in
// headers, never in a path.
func auditAttributes(r *http.Request, caller access.Caller) []any {
	attributes := []any{"user", caller.User, "address", r.RemoteAddr}
	if caller.Local {
		attributes = attributes[:2]
		if c := connectionFrom(r.Context()); c != nil {
			if cred, err := c.limited.peer(); err == nil {
				attributes = append(attributes, "uid", cred.Uid, "pid", cred.Pid)
			}
		}
	}
	if caller.Credential != "" {
		attributes = append(attributes, "credential", caller.Credential)
	}
	attributes = append(attributes, "method", r.Method, "path", r.URL.EscapedPath())
	if pod := r.PathValue("pod"); pod != "" {
		attributes = append(attributes, "pod", r.PathValue("namespace")+"/"+pod)
	}
	q := r.URL.Query()
	if container := r.PathValue("container"); container != "" {
		attributes = append(attributes, "container", container)
	} else if container := q.Get("container"); container != "" {
		attributes = append(attributes, "container", container)
	}
	command := q["command"]
	if cmd := q.Get("cmd"); cmd != "" {
		command = []string{cmd}
	}
	if len(command) > 0 {
		text := fmt.Sprintf("%q", command)
		if len(text) > maxAuditCommand {
			text = text[:maxAuditCommand] + "…"
		}
		attributes = append(attributes, "command", text)
	}
	return attributes
}

// peer returns the process at the other end of a unix socket.
func (c *limitedConn) peer() (cred *unix.Ucred, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	if e := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); e != nil {
		return nil, e
	}
	return cred, err
}
