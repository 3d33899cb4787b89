package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"sync"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/objects"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// maxFollowed is the maximum number of logs that one command follows at the same time.
const maxFollowed = 50

// logStream is the log of one container.
type logStream struct{ namespace, pod, container string }

// logStreams returns the logs that the command line selects.
func logStreams(cmd *cobra.Command, c *client.Client, o logsOptions, args []string) ([]logStream, error) {
	var pods []v1.Pod
	if o.selector == "" {
		pod, err := objects.FindPod(cmd.Context(), c, o.namespace, args[0], cmd.ErrOrStderr())
		if err != nil {
			return nil, err
		}
		pods = append(pods, *pod)
	} else {
		l, err := objects.Query{Kind: objects.PodKind(), Namespace: o.namespace, Labels: o.selector}.List(cmd.Context(), c)
		if err != nil {
			return nil, err
		}
		for _, found := range l.Objects {
			p, err := objects.DecodePod(found)
			if err != nil {
				return nil, err
			}
			pods = append(pods, *p)
		}
		if len(pods) == 0 {
			return nil, fmt.Errorf("no pods match %q%s; list pods with their labels with podstead get pods --show-labels",
				o.selector, objects.InNamespace(o.namespace))
		}
	}
	var streams []logStream
	for i := range pods {
		p := &pods[i]
		if o.allContainers {
			for _, name := range objects.ContainerNames(p, podinfo.AllContainers) {
				streams = append(streams, logStream{p.Namespace, p.Name, name})
			}
			continue
		}
		name, err := objects.ChooseContainer(p, o.container)
		if err != nil {
			return nil, fmt.Errorf("%w, or use --all-containers", err)
		}
		streams = append(streams, logStream{p.Namespace, p.Name, name})
	}
	if o.follow && len(streams) > maxFollowed {
		return nil,
			usageError(fmt.Errorf("%d logs match, and --follow follows at most %d; use a narrower --selector", len(streams),
				maxFollowed))
	}
	return streams, nil
}

// printStreams prints several logs: one after the other, or at the same time if they are
// followed. A log that cannot be read is reported, and the others are printed.
func printStreams(cmd *cobra.Command, c *client.Client, o logsOptions, streams []logStream) error {
	var mu sync.Mutex // held while a line or an error is printed
	failed := false
	one := func(s logStream) {
		prefix := ""
		if o.prefix {
			prefix = fmt.Sprintf("[pod/%s/%s] ", s.pod, s.container)
		}
		err := s.print(cmd.Context(), c, o, &lineWriter{mu: &mu, out: cmd.OutOrStdout(), prefix: prefix})
		if err != nil && cmd.Context().Err() == nil {
			mu.Lock()
			defer mu.Unlock()
			cmd.PrintErrf("pod/%s container %s: %v\n", s.pod, s.container, err)
			failed = true
		}
	}
	if !o.follow {
		for _, s := range streams {
			one(s)
		}
	} else {
		var all sync.WaitGroup
		for _, s := range streams {
			all.Go(func() { one(s) })
		}
		all.Wait()
	}
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	if failed {
		return &ExitError{Code: ExitFailed}
	}
	return nil
}

// print copies the log to out.
func (s logStream) print(ctx context.Context, c *client.Client, o logsOptions, out io.Writer) error {
	path := fmt.Sprintf("/containerLogs/%s/%s/%s?%s", url.PathEscape(s.namespace), url.PathEscape(s.pod),
		url.PathEscape(s.container), o.query())
	body, err := c.Open(ctx, path)
	if err != nil {
		return err
	}
	defer body.Close()
	if lines, ok := out.(*lineWriter); ok {
		err = lines.copy(body)
	} else {
		_, err = io.Copy(out, body)
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("connection to the daemon lost; the container may still be running, try again")
	case err != nil:
		return fmt.Errorf("failed to print log: %w", err)
	}
	return nil
}

// lineWriter prints whole lines of several logs, each after a prefix.
type lineWriter struct {
	mu     *sync.Mutex
	out    io.Writer
	prefix string
}

// Write prints a part of a line; copy is what prints logs.
func (w *lineWriter) Write(p []byte) (int, error) { return w.out.Write(p) }

// copy prints the lines of a log as they come. A line that is longer than the buffer is
// printed in parts.
func (w *lineWriter) copy(log io.Reader) error {
	in := bufio.NewReaderSize(log, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if len(line) > 0 {
			if line[len(line)-1] != '\n' {
				line = append(line[:len(line):len(line)], '\n')
			}
			w.mu.Lock()
			_, failure := io.WriteString(w.out, w.prefix+string(line))
			w.mu.Unlock()
			if failure != nil {
				return failure
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}
