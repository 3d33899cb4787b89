package cri

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The classes of a runtime's errors, for errors.Is. An error of no class is
// the runtime's plain refusal.
var (
	// ErrNotFound says that the sandbox, container or image does not exist.
	ErrNotFound = errors.New("not found")
	// ErrUnavailable says that nothing answers at the endpoint, or that the
	// connection broke. A write may have taken effect all the same.
	ErrUnavailable = errors.New("container runtime unavailable")
	// ErrTimeout says that the answer did not come in time. A write may have
	// taken effect all the same.
	ErrTimeout = errors.New("container runtime timed out")
	// ErrUnimplemented says that this runtime has no such call.
	ErrUnimplemented = errors.New("not implemented by the container runtime")
	// ErrExists says that the name of a sandbox or container is taken by
	// another, such as one made by a call whose answer was lost.
	ErrExists = errors.New("already exists")
)

// Error is the failure of one call to the runtime. It reads "cannot OP:
// DETAIL" and is matched by errors.Is with its class and, if the caller's
// context ended, with that context's error.
type Error struct {
	// Op is what was tried: "list pod sandboxes", "start container 12ab".
	Op string
	// Detail is what went wrong, without the operation. Who knows a better
	// name for the operation than an ID may say it and append Detail.
	Detail string

	class error // nil if none
	cause error
}

// Error is the sentence shown to people.
func (e *Error) Error() string { return "cannot " + e.Op + ": " + e.Detail }

// Unwrap gives the class and the cause to errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	if e.class == nil {
		return []error{e.cause}
	}
	return []error{e.class, e.cause}
}

// GRPCStatus lets status.FromError and status.Code see the runtime's answer.
func (e *Error) GRPCStatus() *status.Status { return status.Convert(e.cause) }

// wrapError gives an error of a call its sentence and its class. limit is the
// time the call had, 0 for none.
func (c *Client) wrapError(ctx context.Context, op operation, limit time.Duration, err error) error {
	st := status.Convert(err)
	e := &Error{Op: op.String(), Detail: st.Message(), cause: err}
	if due, ok := ctx.Deadline(); ok && st.Code() == codes.DeadlineExceeded && !time.Now().Before(due) {
		// The runtime knows the caller's deadline too, and may be an instant
		// ahead of our timer.
		<-ctx.Done()
	}
	if ctxErr := context.Cause(ctx); ctxErr != nil {
		// The caller gave up. What the transport says about it is noise.
		e.cause, e.Detail = ctxErr, ctxErr.Error()
		if errors.Is(ctxErr, context.DeadlineExceeded) {
			e.class = ErrTimeout
			e.Detail = "container runtime at " + c.endpoint + " did not answer in time"
		}
		return e
	}
	switch st.Code() {
	case codes.NotFound:
		e.class = ErrNotFound
	case codes.AlreadyExists:
		e.class = ErrExists
	case codes.Unimplemented:
		e.class = ErrUnimplemented
	case codes.Canceled:
		// Not by the caller: the runtime gave the call up halfway.
		e.class = ErrUnavailable
	case codes.Unavailable:
		e.class = ErrUnavailable
		e.Detail = "container runtime at " + c.endpoint + " is not answering: " + plainTransport(st.Message())
	case codes.DeadlineExceeded:
		e.class = ErrTimeout
		// The runtime's own deadlines come with its own words; ours do not.
		// The runtime knows our deadline too; where it gives up first it
		// resets the stream.
		if limit > 0 && (strings.HasPrefix(st.Message(), "context deadline exceeded") || strings.HasPrefix(st.Message(), "stream terminated by RST_STREAM")) {
			e.Detail = "container runtime at " + c.endpoint + " did not answer within " + limit.String()
		}
	default:
		if nameReserved(st.Message()) {
			e.class = ErrExists
		}
	}
	return e
}

// nameReserved recognises a taken name. containerd has no code for it (1.6
// answers Unknown, 2.4 FailedPrecondition), so that its text is all there is. This is the one
// place that looks at it.
func nameReserved(message string) bool {
	return strings.Contains(message, " is reserved for ") || strings.Contains(message, "name is reserved")
}

// plainTransport takes gRPC's own words off a connection error, which quotes
// the one of the system: `connection error: desc = "transport: Error while
// dialing: dial unix /run/x.sock: connect: connection refused"`.
func plainTransport(message string) string {
	_, quoted, ok := strings.Cut(message, "desc = ")
	if !ok {
		return message
	}
	plain, err := strconv.Unquote(quoted)
	if err != nil {
		return message
	}
	plain = strings.TrimPrefix(plain, "transport: ")
	return strings.TrimPrefix(plain, "Error while dialing: ")
}
