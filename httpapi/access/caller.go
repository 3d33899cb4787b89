package access

import "context"

// Caller is who sent a request.
type Caller struct {
	// User is a name for logs and answers; empty is nobody in particular.
	User string
	// May is what the caller is allowed.
	May Class
	// Local says that the request came over the unix socket.
	Local bool
}

type callerKey struct{}

// With puts the caller into the context of a request.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// Of is the caller of the request with this context; without one, somebody who
// may do nothing.
func Of(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
