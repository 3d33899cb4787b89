package objectwrite

import (
	"errors"
	"fmt"
)

// Reason is why a write failed.
type Reason int

// The reasons. Internal is that of all other errors.
const (
	Internal Reason = iota
	// Invalid: the object, or the change, has faults.
	Invalid
	// Conflict: the object has changed meanwhile, so that the client has to read it again.
	Conflict
	// Exists: there is an object of this name.
	Exists
	// NotFound: no manifest declares the object.
	NotFound
	// Forbidden: this object cannot be changed on this node, and the client must not try again.
	Forbidden
)

// Error is why a write failed, for its client.
type Error struct {
	Reason Reason
	Err    error
	// Object is the name of the object that has faults, empty if it is that of the request.
	Object string
	Causes []Cause
}

// Cause is a fault of a field.
type Cause struct{ Field, Message string }

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an Error.
func Errorf(reason Reason, format string, args ...any) error {
	return &Error{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// ReasonOf returns the reason of an error.
func ReasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return Internal
}
