package cli

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

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
)

func copyCommand() *cobra.Command {
	var o streamOptions
	cmd := &cobra.Command{
		Use:   "cp FROM TO",
		Short: "Copy files into a container or out of it",
		Long: `Copy a file or a folder into a container or out of it.

One of FROM and TO is POD:PATH or NAMESPACE/POD:PATH, the other a path here. If
TO is a folder that is there, what is copied gets its own name in it. The
container needs tar, or for a single file cat (and sh to write it).

Out of a container nothing is written outside TO: a name with .. and a link that
leads out of it are left out, with a warning.`,
		Example: `  podstead cp web:/etc/hosts ./hosts
  podstead cp ./site web:/srv -c main`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error { return copyFiles(cmd, o, args[0], args[1]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.socket, "api-socket", DefaultSocket, "the daemon's `socket`")
	f.StringVarP(&o.namespace, "namespace", "n", "", "the pod's `namespace`, needed if several have a pod of this name")
	f.StringVarP(&o.container, "container", "c", "", "the `container`, needed if the pod has several")
	return cmd
}

// place is one side of a copy.
type place struct {
	// pod is empty for a path of this machine.
	namespace, pod, path string
}

// parsePlace reads POD:PATH, NAMESPACE/POD:PATH or a path. What begins with /
// or . is a path, whatever colons it has.
func parsePlace(text string) (place, error) {
	before, after, ok := strings.Cut(text, ":")
	if !ok || strings.HasPrefix(text, "/") || strings.HasPrefix(text, ".") {
		if text == "" {
			return place{}, usageError(errors.New("a path must not be empty"))
		}
		return place{path: text}, nil
	}
	p := place{pod: before, path: after}
	if ns, pod, both := strings.Cut(before, "/"); both {
		p.namespace, p.pod = ns, pod
	}
	switch {
	case p.pod == "" || strings.Contains(p.pod, "/"):
		return place{}, usageError(fmt.Errorf("%q: before the colon must be POD or NAMESPACE/POD", text))
	case after == "":
		return place{}, usageError(fmt.Errorf("%q: a path must follow the colon", text))
	}
	return p, nil
}

func copyFiles(cmd *cobra.Command, o streamOptions, fromText, toText string) error {
	from, err := parsePlace(fromText)
	if err != nil {
		return err
	}
	to, err := parsePlace(toText)
	if err != nil {
		return err
	}
	remote := from
	if from.pod == "" {
		remote = to
	}
	if (from.pod == "") == (to.pod == "") {
		return usageError(errors.New("one of both must be in a pod, as POD:PATH, and the other here"))
	}
	if remote.namespace != "" && o.namespace != "" && remote.namespace != o.namespace {
		return usageError(fmt.Errorf("--namespace %s, and %s before the pod: give one of them", o.namespace, remote.namespace))
	}
	if remote.namespace != "" {
		o.namespace = remote.namespace
	}
	c := newClient(o.socket)
	pod, err := onePod(cmd, c, o.namespace, remote.pod)
	if err != nil {
		return err
	}
	if o.container, err = chooseContainer(pod, o.container); err != nil {
		return err
	}
	box := &copyTarget{c: c, pod: pod, container: o.container, warn: func(format string, args ...any) { cmd.PrintErrf("podstead: "+format+"\n", args...) }}
	if from.pod == "" {
		err = box.upload(cmd.Context(), from.path, to.path)
	} else {
		err = box.download(cmd.Context(), from.path, to.path)
	}
	return interrupted(cmd, err)
}

// copyTarget is the container that files are copied into or out of.
type copyTarget struct {
	c         *client
	pod       *v1.Pod
	container string
	warn      func(format string, args ...any)
}

// run runs a command there. What it says on its standard error becomes part of
// the error.
func (b *copyTarget) run(ctx context.Context, in io.Reader, out io.Writer, command ...string) error {
	var errs tail
	s := session{stdin: in, stdout: out, stderr: &errs}
	err := b.c.converse(ctx, execPath(b.pod, b.container, command, s), s)
	if text := strings.TrimSpace(string(errs)); err != nil && text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}

// has says whether a command can be run there.
func (b *copyTarget) has(ctx context.Context, command ...string) bool {
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
func (b *copyTarget) upload(ctx context.Context, from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !b.hasTar(ctx) {
		if err := b.stopped(); err != nil {
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
func (b *copyTarget) hasTar(ctx context.Context) bool {
	err := b.run(ctx, nil, io.Discard, "tar", "--help")
	var exit *ExitError
	return err == nil || errors.As(err, &exit) && exit.Code != 126 && exit.Code != 127
}

// stopped is an error if the container does not run: then nobody knows what it
// has.
func (b *copyTarget) stopped() error {
	for _, list := range [][]v1.ContainerStatus{b.pod.Status.InitContainerStatuses, b.pod.Status.ContainerStatuses} {
		for i := range list {
			if c := &list[i]; c.Name == b.container && c.State.Running == nil {
				return fmt.Errorf("container %q in pod %q does not run; see podstead describe pod %s", c.Name, b.pod.Name, b.pod.Name)
			}
		}
	}
	return nil
}

// errNoTar says what a container lacks.
func (b *copyTarget) errNoTar(what string) error {
	return fmt.Errorf("container %q has no tar%s; mount a volume into it and copy there, or add tar to its image", b.container, what)
}

// uploadFile copies one file with a shell alone.
func (b *copyTarget) uploadFile(ctx context.Context, from, to string, info os.FileInfo) error {
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
func (b *copyTarget) download(ctx context.Context, from, to string) error {
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
		if err := b.stopped(); err != nil {
			return err
		}
		return b.downloadFile(ctx, from, to)
	}
	r, w := io.Pipe()
	unpacked := make(chan error, 1)
	go func() {
		err := unpack(r, to, b.warn)
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
func (b *copyTarget) downloadFile(ctx context.Context, from, to string) error {
	f := &lateFile{path: to}
	err := b.run(ctx, nil, f, "cat", "--", from)
	if err == nil {
		_, err = f.Write(nil) // of an empty one nothing comes
	}
	if e := f.close(); err == nil {
		err = e
	}
	var exit *ExitError
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
