package cri

import (
	"context"
	"fmt"
	"strings"

	"github.com/podstead/podstead/cri/pullrecords"
)

// PullImage pulls an image for no pod, immediately and without back-off, and
// returns its full name and the runtime's ID of it. An error contains no secrets
// of the credentials. The pull is recorded; records may be nil.
func PullImage(ctx context.Context, service ImageRuntime, records *pullrecords.Records, requested string,
	credentials PullCredentials) (name, id string, err error) {
	name, err = imageName(requested)
	if err != nil {
		return "", "", &NameError{err}
	}
	list, lookupErr := credentials.lookup(ctx, name)
	id, err = recordedPulls{service, records}.pull(ctx, name, list, false)
	switch {
	case ctx.Err() != nil:
		return name, "", context.Cause(ctx)
	case err != nil && lookupErr != nil:
		return name, "", fmt.Errorf("failed to pull image %q: %s; credential lookup failed: %s", requested, detail(err),
			strings.ReplaceAll(lookupErr.Error(), "\n", "; "))
	case err != nil:
		return name, "", fmt.Errorf("failed to pull image %q: %s", requested, detail(err))
	}
	return name, id, nil
}

// NameError is an invalid image reference.
type NameError struct{ err error }

// Error describes the fault and a remedy.
func (e *NameError) Error() string { return e.err.Error() }
