package filecopy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/api/client"
	"github.com/podstead/podstead/cli/streams"
	"github.com/podstead/podstead/cli/terminal"
)

// Container is the container that files are copied to or from.
type Container struct {
	Client *client.Client
	Pod    *v1.Pod
	Name   string
	Warn   func(format string, args ...any)
}

// run runs a command in the container. Its standard error becomes part of the error, on one
// line and without control characters: it may say anything.
func (c *Container) run(ctx context.Context, in io.Reader, out io.Writer, command ...string) error {
	var errs tail
	s := streams.Session{Stdin: in, Stdout: out, Stderr: &errs}
	err := s.Run(ctx, c.Client, s.ExecPath(c.Pod, c.Name, command))
	if text := terminal.Visible(terminal.OneLine(string(errs))); err != nil && text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// succeeds reports whether a command succeeds in the container.
func (c *Container) succeeds(ctx context.Context, command ...string) bool {
	return c.run(ctx, nil, io.Discard, command...) == nil
}

// tail keeps the last bytes that were written.
type tail []byte

func (t *tail) Write(b []byte) (int, error) {
	const limit = 4096
	*t = append(*t, b...)
	if excess := len(*t) - limit; excess > 0 {
		*t = bytes.Clone((*t)[excess:])
	}
	return len(b), nil
}

// Upload copies a local file or directory to the container.
func (c *Container) Upload(ctx context.Context, from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !c.hasTar(ctx) {
		if err := c.notRunning(); err != nil {
			return err
		}
		return c.uploadFile(ctx, from, to, info)
	}
	if strings.HasSuffix(to, "/") || c.succeeds(ctx, "test", "-d", to) {
		real, err := filepath.Abs(from)
		if err != nil {
			return err
		}
		to = path.Join(to, filepath.Base(real))
	}
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := pack(w, from, path.Base(to))
		_ = w.CloseWithError(err)
		packed <- err
	}()
	err = c.run(ctx, r, io.Discard, "tar", "-xmf", "-", "-C", path.Dir(to))
	_ = r.CloseWithError(io.ErrClosedPipe)
	if e := <-packed; e != nil && !errors.Is(e, io.ErrClosedPipe) {
		return e
	}
	return err
}

// hasTar reports whether the container has tar. Every tar either accepts --help or fails with
// an exit code of its own; a missing one cannot be started.
func (c *Container) hasTar(ctx context.Context) bool {
	err := c.run(ctx, nil, io.Discard, "tar", "--help")
	var exit *streams.CommandError
	return err == nil || errors.As(err, &exit) && exit.Code != 126 && exit.Code != 127
}

// notRunning returns an error if the container is not running: its files and programs are
// unknown then.
func (c *Container) notRunning() error {
	for _, list := range [][]v1.ContainerStatus{c.Pod.Status.InitContainerStatuses, c.Pod.Status.ContainerStatuses} {
		for i := range list {
			if st := &list[i]; st.Name == c.Name && st.State.Running == nil {
				return fmt.Errorf("container %q in pod %q is not running; see podstead describe pod %s", c.Name, c.Pod.Name,
					c.Pod.Name)
			}
		}
	}
	return nil
}

// noTarError reports what the container lacks.
func (c *Container) noTarError(missing string) error {
	return fmt.Errorf("container %q has no tar%s; mount a volume into it and copy there, or add tar to its image", c.Name,
		missing)
}

// uploadFile copies a single file with a shell, without tar.
func (c *Container) uploadFile(ctx context.Context, from, to string, info os.FileInfo) error {
	if !info.Mode().IsRegular() {
		return c.noTarError(", which is needed to copy a directory")
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	if !c.succeeds(ctx, "sh", "-c", "command -v cat") {
		return c.noTarError(" and no shell with cat")
	}
	script := fmt.Sprintf(`to=$0; if [ -d "$to" ]; then to=$to/$1; fi; cat > "$to" && chmod %o "$to"`, info.Mode().Perm())
	return c.run(ctx, f, io.Discard, "sh", "-c", script, to, filepath.Base(from))
}

// Download copies a file or directory of the container to this machine.
func (c *Container) Download(ctx context.Context, from, to string) error {
	from = path.Clean(from)
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		name := path.Base(from)
		if name == "." || name == ".." || name == "/" {
			return fmt.Errorf("%q has no base name; use a destination that does not exist yet", from)
		}
		to = filepath.Join(to, name)
	} else if strings.HasSuffix(to, "/") {
		return fmt.Errorf("%s is not a directory", to)
	}
	if !c.hasTar(ctx) {
		if err := c.notRunning(); err != nil {
			return err
		}
		return c.downloadFile(ctx, from, to)
	}
	r, w := io.Pipe()
	unpacked := make(chan error, 1)
	go func() {
		err := unpack(r, to, c.Warn)
		_ = r.CloseWithError(err)
		unpacked <- err
	}()
	// No shell interprets the name: it is an argument of tar.
	err := c.run(ctx, nil, w, "tar", "-cf", "-", "-C", path.Dir(from), "--", path.Base(from))
	_ = w.CloseWithError(err)
	if e := <-unpacked; e != nil && err == nil {
		return e
	} else if err != nil && e != nil && !errors.Is(e, err) && !errors.Is(e, io.ErrUnexpectedEOF) {
		return e
	}
	return err
}

// downloadFile copies a single file with cat, without tar.
func (c *Container) downloadFile(ctx context.Context, from, to string) error {
	f := &lateFile{path: to}
	err := c.run(ctx, nil, f, "cat", "--", from)
	if err == nil {
		_, err = f.Write(nil) // an empty file delivers no data
	}
	if e := f.close(); err == nil {
		err = e
	}
	var exit *streams.CommandError
	if err != nil && (!errors.As(err, &exit) || exit.Code == 126 || exit.Code == 127) {
		return errors.Join(c.noTarError(" and no cat"), err)
	}
	return err
}

// lateFile is created or truncated only when the first data is written, so that a failed
// copy does not destroy an existing file.
type lateFile struct {
	path string
	file *os.File
}

func (f *lateFile) Write(b []byte) (int, error) {
	if f.file == nil {
		file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
		if err != nil {
			return 0, err
		}
		f.file = file
	}
	return f.file.Write(b)
}

func (f *lateFile) close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}
