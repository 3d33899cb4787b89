package streaming

import (
	"io"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Options are the streams that a client requests.
type Options struct {
	Stdin, Stdout, Stderr, TTY bool
}

// streamNames returns the names of the requested data streams. A terminal has no
// stderr of its own.
func (o Options) streamNames() []string {
	var names []string
	for name, requested := range map[string]bool{
		v1.StreamTypeStdin: o.Stdin, v1.StreamTypeStdout: o.Stdout, v1.StreamTypeStderr: o.Stderr && !o.TTY,
	} {
		if requested {
			names = append(names, name)
		}
	}
	return names
}

// client is the side that requested an exec or an attach.
type client interface {
	// input returns the reader of a stream that the client sends, nil if it has
	// none.
	input(name string) io.Reader
	// output returns the writer of a stream that the client receives, nil if it has
	// none.
	output(name string) io.Writer
	// end sends the final status and closes the connection after all that was
	// written.
	end(*metav1.Status)
	// abort closes the connection at once.
	abort()
	// done is closed when the client has disconnected.
	done() <-chan struct{}
	// alive is called periodically while nothing is read from the client, and
	// reports whether it is still connected.
	alive() bool
}
