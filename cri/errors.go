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

// The classes of a runtime's errors, for errors.Is. An error without a class is a
// plain failure that the runtime reported.
var (
	// ErrNotFound means that the sandbox, container or image does not exist.
	ErrNotFound = errors.New("not found")
	// ErrUnavailable means that nothing responds at the endpoint, or that the
	// connection broke. A write may have taken effect nevertheless.
	ErrUnavailable = errors.New("container runtime unavailable")
	// ErrOutputTooLarge means that a command printed more than is accepted. How it
	// ended is unknown.
	ErrOutputTooLarge = errors.New("the command printed more output than is accepted")
	// ErrTimeout means that the response did not come in time. A write may have
	// taken effect nevertheless.
	ErrTimeout = errors.New("container runtime timed out")
	// ErrUnimplemented means that this runtime has no such call. It is an errors.ErrUnsupported, so
	// that packages which do not know this one can tell it too.
	ErrUnimplemented error = unimplemented{}
	// ErrExists means that the name of a sandbox or container is taken by another
	// one, for example one created by a call whose reply was lost.
	ErrExists = errors.New("already exists")
)

type unimplemented struct{}

func (unimplemented) Error() string { return "not implemented by the container runtime" }

func (unimplemented) Is(target error) bool { return target == errors.ErrUnsupported }

// Error is the failure of one call to the runtime. It reads "failed to OP:
// DETAIL" and matches, through errors.Is, its class and, if the caller's context
// ended, that context's error.
type Error struct {
	// Op is the attempted operation: "list pod sandboxes", "start container
	// 12ab".
	Op string
	// Detail is what went wrong, without the operation. A caller that has a
	// better name for the operation than an ID can use that name and append
	// Detail.
	Detail string

	class error // nil if none
	cause error
}

// Error returns the full message.
func (e *Error) Error() string { return "failed to " + e.Op + ": " + e.Detail }

// Unwrap returns the class and the cause for errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	if e.class == nil {
		return []error{e.cause}
	}
	return []error{e.class, e.cause}
}

// GRPCStatus lets status.FromError and status.Code read the runtime's answer.
func (e *Error) GRPCStatus() *status.Status { return status.Convert(e.cause) }

// wrapError adds the operation and the class to an error of a call. limit is the
// time that the call had, 0 for none.
func (c *Client) wrapError(ctx context.Context, op operation, limit time.Duration, err error) error {
	st := status.Convert(err)
	e := &Error{Op: op.String(), Detail: st.Message(), cause: err}
	if due, ok := ctx.Deadline(); ok && st.Code() == codes.DeadlineExceeded && !time.Now().Before(due) {
		// The runtime also knows the caller's deadline, and may report it just
		// before our timer fires.
		<-ctx.Done()
	}
	if ctxErr := context.Cause(ctx); ctxErr != nil {
		// The caller gave up. What the transport reports about that is noise.
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
		// Not by the caller: the runtime cancelled the call.
		e.class = ErrUnavailable
	case codes.Unavailable:
		e.class = ErrUnavailable
		e.Detail = "container runtime at " + c.endpoint + " is not answering: " + plainTransport(st.Message())
	case codes.DeadlineExceeded:
		e.class = ErrTimeout
		// The runtime's own deadlines have their own messages; ours do not. The
		// runtime also knows our deadline; if it gives up first, it resets the
		// stream.
		if limit > 0 && (strings.HasPrefix(st.Message(), "context deadline exceeded") ||
			strings.HasPrefix(st.Message(), "stream terminated by RST_STREAM")) {
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
// returns Unknown, 2.4 FailedPrecondition), so only the text identifies it. No
// other place inspects it.
func nameReserved(message string) bool {
	return strings.Contains(message, " is reserved for ") || strings.Contains(message, "name is reserved")
}

// plainTransport strips gRPC's own text from a connection error, which quotes the
// system's: `connection error: desc = "transport: Error while dialing: dial unix
// /run/x.sock: connect: connection refused"`.
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
