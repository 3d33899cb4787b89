package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// criNamespace is containerd's namespace for its CRI plugin.
const criNamespace = "k8s.io"

// FindCtr finds ctr, the command of the containerd that listens on a socket: the
// one in its directory, else the one in PATH.
func FindCtr(ctx context.Context, socket string) (string, error) {
	if dir := listenerDirectory(ctx, socket); dir != "" {
		if p, err := exec.LookPath(filepath.Join(dir, "ctr")); err == nil {
			return p, nil
		}
	}
	if p, err := exec.LookPath("ctr"); err == nil {
		return p, nil
	}
	return "", errors.New("images are loaded into this containerd with its command ctr, which is neither in its " +
		"directory nor in PATH: install it (it is part of containerd)")
}

// listenerDirectory returns the directory of the program that listens on a
// socket, empty if it is unknown.
func listenerDirectory(ctx context.Context, socket string) string {
	c, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return ""
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return ""
	}
	pid := 0
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			pid = int(cred.Pid)
		}
	})
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return ""
	}
	return filepath.Dir(exe)
}

// Import loads images into the containerd on a socket with its command ctr. They
// have their names when it returns; the CRI plugin lists them a moment later.
func Import(ctx context.Context, ctr, socket string, images []*Image) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	written := make(chan error, 1)
	go func() {
		err := WriteLayout(w, images)
		written <- errors.Join(err, w.Close())
	}()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, ctr, "--address", socket, "--namespace", criNamespace, "images", "import", "-")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r, &said, &said
	err = cmd.Run()
	// It may have exited before it read everything.
	_ = r.Close()
	if werr := <-written; err == nil && werr != nil && !errors.Is(werr, syscall.EPIPE) {
		err = werr
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("failed to import the images with ctr: %w: %s", err, lastLine(said.String()))
	}
	return nil
}

// lastLine returns the line in which a command reports why it failed.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
