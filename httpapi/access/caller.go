package access

import (
	"context"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// source is what authenticated a caller.
type source uint8

const (
	// fromElsewhere is a listener that needs no authentication, or a cluster.
	fromElsewhere source = iota
	fromCertificate
	fromTokenFile
)

// Caller is who sent a request.
type Caller struct {
	// User is the name for logs and responds; empty for an anonymous caller.
	User string
	// Classes are the classes that the caller is allowed.
	Classes Class
	// Local is true for requests over the unix socket.
	Local bool
	// Expires is when the credential of the caller expires; zero if it does not, or if a
	// cluster knows.
	Expires time.Time
	// Credential identifies the certificate of the caller; empty for none.
	Credential string

	source source
	// subject is the user in the cluster, whose reviews may allow more than Classes; nil if
	// the cluster does not authorize this caller.
	subject *authenticationv1.UserInfo
	reviews *Reviews
}

// Authorize checks whether the caller may use a route of a class. It returns the caller
// with the permissions for this request, or the reason why access is denied. The error is
// that of a cluster that cannot be asked.
func (c Caller) Authorize(r *http.Request, class Class, route string) (authorized Caller, denied string, err error) {
	if c.Classes.Has(class) {
		return c, "", nil
	}
	if c.reviews == nil {
		return c, fmt.Sprintf("%s is not allowed to %s %s: the access class %s is required", c.name(), r.Method, r.URL.Path,
			class), nil
	}
	if class.Has(Write) {
		// Who writes pods is root here. No permission of a cluster means that for a node: at a kubelet,
		// nodes/proxy is access to containers that run.
		return c, fmt.Sprintf("%s is not allowed to %s %s: the access class %s is required, which no permission in the "+
			"cluster grants", c.name(), r.Method, r.URL.Path, class), nil
	}
	ok, denied, err := c.reviews.authorize(r.Context(), c.subject,
		resourceAttributes(r.Method, route, class, c.reviews.cfg.Node))
	if ok {
		// Only this class: what readers may not see stays hidden.
		c.Classes |= class
	}
	return c, denied, err
}

func (c Caller) name() string {
	if c.User == "" {
		return "anonymous"
	}
	return fmt.Sprintf("user %q", c.User)
}

type callerKey struct{}

// WithCaller returns a context with the caller of a request.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns the caller of the request with this context, by default one without
// any permission.
func CallerFrom(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
