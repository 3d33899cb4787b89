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

	"github.com/podstead/podstead/cmd/podstead/cli/client"
)

// copyTarget is the container that files are copied into or out of.
type Container struct {
	Client *client.Client
	Pod    *v1.Pod
	Name   string
	Warn   func(format string, args ...any)
}

// run runs a command there. What it says on its standard error becomes part of
// the error.
func (b *Container) run(ctx context.Context, in io.Reader, out io.Writer, command ...string) error {
	var errs tail
	s := client.Session{Stdin: in, Stdout: out, Stderr: &errs}
	err := b.Client.Stream(ctx, s.ExecPath(b.Pod, b.Name, command), s)
	if text := strings.TrimSpace(string(errs)); err != nil && text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// has says whether a command can be run there.
func (b *Container) has(ctx context.Context, command ...string) bool {
	return b.run(ctx, nil, io.Discard, command...) == nil
}

// tail keeps the last bytes that were written.
type tail []byte

func (t *tail) Write(b []byte) (int, error) {
	const most = 4096
	*t = append(*t, b...)
	if over := len(*t) - most; over > 0 {
		*t = bytes.Clone((*t)[over:])
	}
	return len(b), nil
}

// upload copies a file or folder of this machine into the container.
func (b *Container) Upload(ctx context.Context, from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !b.hasTar(ctx) {
		if err := b.notRunning(); err != nil {
			return err
		}
		return b.uploadFile(ctx, from, to, info)
	}
	if strings.HasSuffix(to, "/") || b.has(ctx, "test", "-d", to) {
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
	err = b.run(ctx, r, io.Discard, "tar", "-xmf", "-", "-C", path.Dir(to))
	_ = r.CloseWithError(io.ErrClosedPipe)
	if e := <-packed; e != nil && !errors.Is(e, io.ErrClosedPipe) {
		return e
	}
	return err
}

// hasTar says whether the container has tar. A tar of any make knows --help or
// complains of it with a code of its own; one that is not there cannot be begun.
func (b *Container) hasTar(ctx context.Context) bool {
	err := b.run(ctx, nil, io.Discard, "tar", "--help")
	var exit *client.CommandError
	return err == nil || errors.As(err, &exit) && exit.Code != 126 && exit.Code != 127
}

// stopped is an error if the container does not run: then nobody knows what it
// has.
func (b *Container) notRunning() error {
	for _, list := range [][]v1.ContainerStatus{b.Pod.Status.InitContainerStatuses, b.Pod.Status.ContainerStatuses} {
		for i := range list {
			if c := &list[i]; c.Name == b.Name && c.State.Running == nil {
				return fmt.Errorf("container %q in pod %q does not run; see podstead describe pod %s", c.Name, b.Pod.Name, b.Pod.Name)
			}
		}
	}
	return nil
}

// errNoTar says what a container lacks.
func (b *Container) errNoTar(what string) error {
	return fmt.Errorf("container %q has no tar%s; mount a volume into it and copy there, or add tar to its image", b.Name, what)
}

// uploadFile copies one file with a shell alone.
func (b *Container) uploadFile(ctx context.Context, from, to string, info os.FileInfo) error {
	if !info.Mode().IsRegular() {
		return b.errNoTar(", which copying a folder needs")
	}
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	if !b.has(ctx, "sh", "-c", "command -v cat") {
		return b.errNoTar(" and no shell with cat")
	}
	script := fmt.Sprintf(`to=$0; if [ -d "$to" ]; then to=$to/$1; fi; cat > "$to" && chmod %o "$to"`, info.Mode().Perm())
	return b.run(ctx, f, io.Discard, "sh", "-c", script, to, filepath.Base(from))
}

// download copies a file or folder of the container to this machine.
func (b *Container) Download(ctx context.Context, from, to string) error {
	from = path.Clean(from)
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		name := path.Base(from)
		if name == "." || name == ".." || name == "/" {
			return fmt.Errorf("%q has no name of its own; choose a path that is not there yet as destination", from)
		}
		to = filepath.Join(to, name)
	} else if strings.HasSuffix(to, "/") {
		return fmt.Errorf("%s is no folder", to)
	}
	if !b.hasTar(ctx) {
		if err := b.notRunning(); err != nil {
			return err
		}
		return b.downloadFile(ctx, from, to)
	}
	r, w := io.Pipe()
	unpacked := make(chan error, 1)
	go func() {
		err := unpack(r, to, b.Warn)
		_ = r.CloseWithError(err)
		unpacked <- err
	}()
	// The name itself is left to the shell of nobody: it is an argument.
	err := b.run(ctx, nil, w, "tar", "-cf", "-", "-C", path.Dir(from), "--", path.Base(from))
	_ = w.CloseWithError(err)
	if e := <-unpacked; e != nil && err == nil {
		return e
	} else if err != nil && e != nil && !errors.Is(e, err) && !errors.Is(e, io.ErrUnexpectedEOF) {
		return e
	}
	return err
}

// downloadFile copies one file with cat alone.
func (b *Container) downloadFile(ctx context.Context, from, to string) error {
	f := &lateFile{path: to}
	err := b.run(ctx, nil, f, "cat", "--", from)
	if err == nil {
		_, err = f.Write(nil) // of an empty one nothing comes
	}
	if e := f.close(); err == nil {
		err = e
	}
	var exit *client.CommandError
	if err != nil && (!errors.As(err, &exit) || exit.Code == 126 || exit.Code == 127) {
		return errors.Join(b.errNoTar(" and no cat"), err)
	}
	return err
}

// lateFile is opened, and what it held is lost, when the first of its content is
// there.
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
