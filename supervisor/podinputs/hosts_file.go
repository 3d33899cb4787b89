package podinputs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/status"
)

// The file in a pod's directory that its containers mount as /etc/hosts; name and
// mode are the kubelet's.
const (
	hostsFile     = "etc-hosts"
	hostsFileMode = 0o644
	hostsPath     = "/etc/hosts"
)

// withHostsFile adds the pod's hosts file to the mounts of a container, unless the
// container mounts something there itself, or the pod has no address yet.
func (r *Resolver) withHostsFile(mounts []cri.Mount, pod *v1.Pod, sandboxIPs []string) ([]cri.Mount, error) {
	own := slices.ContainsFunc(mounts, func(m cri.Mount) bool { return filepath.Clean(m.ContainerPath) == hostsPath })
	ips := status.PodIPs(pod, &cri.PodStatus{IPs: sandboxIPs}, r.hostIPs())
	if own || len(ips) == 0 && !pod.Spec.HostNetwork {
		return mounts, nil
	}
	file, err := r.writeHostsFile(pod, ips)
	if err != nil {
		return nil, err
	}
	return append(mounts, cri.Mount{HostPath: file, ContainerPath: hostsPath, Propagation: v1.MountPropagationNone}), nil
}

// writeHostsFile updates the pod's hosts file and returns its path. It writes in
// place: other containers of the pod have the file mounted.
func (r *Resolver) writeHostsFile(pod *v1.Pod, ips []string) (string, error) {
	text, err := r.cfg.DNS.HostsFile(pod, ips)
	if err != nil {
		return "", err
	}
	dir, err := r.cfg.Volumes.PodDir(pod.UID)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, hostsFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, hostsFileMode)
	if err != nil {
		return "", fmt.Errorf("failed to open the pod's hosts file: %w", err)
	}
	defer f.Close()
	// Read one byte more, to notice a longer file that begins the same way.
	have, err := io.ReadAll(io.LimitReader(f, int64(len(text))+1))
	if err == nil && !bytes.Equal(have, text) {
		if _, err = f.WriteAt(text, 0); err == nil {
			err = f.Truncate(int64(len(text)))
		}
	}
	if err == nil {
		err = f.Chmod(hostsFileMode)
	}
	if err != nil {
		return "", fmt.Errorf("failed to write the pod's hosts file: %w", err)
	}
	return path, nil
}
