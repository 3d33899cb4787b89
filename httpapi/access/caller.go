package access

import (
	"context"
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// Caller is who sent a request.
type Caller struct {
	// User is a name for logs and answers; empty is nobody in particular.
	User string
	// May is what the caller is allowed.
	Classes Class
	// Local says that the request came over the unix socket.
	Local bool

	// subject is who the caller is in a cluster, and reviews knows what he may do
	// there beside May; nil for those whom it is not asked about.
	subject *authenticationv1.UserInfo
	reviews *Reviews
}

// Permit is the caller with what he needs for a route of that class and path. Who
// may not use it is told why; the error is that of a cluster that cannot tell.
func (c Caller) Authorize(r *http.Request, class Class, route string) (permitted Caller, why string, err error) {
	if c.Classes.Has(class) {
		return c, "", nil
	}
	if c.reviews == nil {
		return c, fmt.Sprintf("%s may not use %s %s, which needs the access class %s", c.name(), r.Method, r.URL.Path, class), nil
	}
	ok, why, err := c.reviews.authorize(r.Context(), c.subject, resourceAttributes(r.Method, route, class, c.reviews.cfg.Node))
	if ok {
		// No more than this: what is kept from readers stays so.
		c.Classes |= class
	}
	return c, why, err
}

func (c Caller) name() string {
	if c.User == "" {
		return "whoever asks here"
	}
	return fmt.Sprintf("user %q", c.User)
}

type callerKey struct{}

// With puts the caller into the context of a request.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// Of is the caller of the request with this context; without one, somebody who
// may do nothing.
func CallerFrom(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
