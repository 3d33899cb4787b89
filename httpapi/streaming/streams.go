package streaming

import (
	"io"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Options are the streams that a client asks for.
type Options struct {
	Stdin, Stdout, Stderr, TTY bool
}

// wants are the names of the streams for what moves data.
func (o Options) wants() []string {
	var names []string
	for name, on := range map[string]bool{
		v1.StreamTypeStdin: o.Stdin, v1.StreamTypeStdout: o.Stdout, v1.StreamTypeStderr: o.Stderr && !o.TTY,
	} {
		if on {
			names = append(names, name)
		}
	}
	return names
}

// client is the side that asked for a command or a terminal.
type client interface {
	// in gives what the client sends on a stream, nil if it has none.
	in(name string) io.Reader
	// out takes what goes to the client, nil if it has no such stream.
	out(name string) io.Writer
	// end tells the client how it ended and closes after what was written.
	end(*metav1.Status)
	// abort closes at once.
	abort()
	// gone is closed when the client has left.
	gone() <-chan struct{}
	// stalled is called now and then while nothing of the client is read,
	// and says whether it is still there.
	stalled() bool
}
