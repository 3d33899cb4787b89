package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	v1 "k8s.io/api/core/v1"
)

// nfsLimit limits a run of mount.nfs; the next sync of the pod tries again.
const nfsLimit = 2 * time.Minute

// nfsHelpers lists the places of mount.nfs; the PATH of a service may lack sbin.
var nfsHelpers = []string{"mount.nfs", "/usr/sbin/mount.nfs", "/sbin/mount.nfs"}

// setupNFS mounts an NFS export with the host's mount.nfs, which negotiates with the
// server before the kernel does. options are further mount options.
func (v *Volumes) setupNFS(ctx context.Context, path string, src *v1.NFSVolumeSource, options []string) error {
	// Do not stat the directory: that hangs while the server is unreachable.
	if there, err := v.isMounted(path); err != nil || there {
		return err
	}
	if err := os.MkdirAll(path, podMode); err != nil {
		return err
	}
	helper, err := findProgram(nfsHelpers)
	if err != nil {
		return errors.New("this host cannot mount NFS: mount.nfs not found; install it (Debian: apt-get install nfs-common)")
	}
	server := src.Server
	if strings.Contains(server, ":") && !strings.HasPrefix(server, "[") {
		server = "[" + server + "]" // an IPv6 address
	}
	args := []string{server + ":" + src.Path, path}
	if src.ReadOnly {
		options = append(slices.Clone(options), "ro")
	}
	if len(options) > 0 {
		args = append(args, "-o", strings.Join(options, ","))
	}
	ctx, cancel := context.WithTimeout(ctx, nfsLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, helper, args...).CombinedOutput()
	if ctx.Err() != nil {
		return fmt.Errorf("failed to mount %s: the server did not answer: %w", args[0], context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("failed to mount %s: %w: %s", args[0], err, strings.Join(strings.Fields(string(out)), " "))
	}
	return nil
}

// isMounted reports whether something is mounted on a path. The path contains links
// only above the pods directory.
func (v *Volumes) isMounted(path string) (bool, error) {
	root, err := filepath.EvalSymlinks(v.Root)
	if err != nil {
		return false, err
	}
	points, err := v.readMounts()
	if err != nil {
		return false, fmt.Errorf("failed to read mounts: %w", err)
	}
	path = root + strings.TrimPrefix(path, v.Root)
	return slices.ContainsFunc(points, func(m *mountinfo.Info) bool { return m.Mountpoint == path }), nil
}

func findProgram(names []string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}
