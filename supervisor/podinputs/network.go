package podinputs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/supervisor/status"
)

// The file in a pod's folder that its containers have for /etc/hosts, as the
// kubelet'r.
const (
	hostsFile     = "etc-hosts"
	hostsFileMode = 0o644
	hostsPath     = "/etc/hosts"
)

// SandboxInputs are the values for the pod's sandbox. What cannot be had fails
// a sandbox that is to be made, and changes nothing for one that is there.
func (r *Resolver) SandboxInputs(pod *v1.Pod, ready bool) (cri.SandboxInputs, error) {
	hostname, err := r.cfg.DNS.Hostname(pod)
	if err != nil && !ready {
		return cri.SandboxInputs{}, err
	}
	resolver, omitted, err := r.cfg.DNS.Resolver(pod)
	if err != nil && !ready {
		return cri.SandboxInputs{}, err
	}
	if len(omitted) > 0 && !ready {
		r.cfg.Events.Event(pod, v1.EventTypeWarning, reasonDNSConfigForming, strings.Join(omitted, "; "))
	}
	users, err := r.userNamespace(pod)
	if err != nil {
		// The containers of a sandbox need to be told its range as well.
		return cri.SandboxInputs{}, err
	}
	return cri.SandboxInputs{Hostname: hostname, DNS: resolver, Users: users}, nil
}

// withHostsFile adds the pod's hosts file to the mounts of a container, unless
// one of them is in its place, or there is nothing to say yet.
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

// writeHostsFile brings the pod's hosts file up to date and returns its path.
// It is written in place: other containers of the pod have it mounted.
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
		return "", fmt.Errorf("cannot open the pod's hosts file: %w", err)
	}
	defer f.Close()
	// One byte more tells a file that begins the same way.
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
		return "", fmt.Errorf("cannot write the pod's hosts file: %w", err)
	}
	return path, nil
}

// LacksHostIP is why a pod cannot start before the node has an address, nil if
// it can. Whoever gets to know one wakes it.
func (r *Resolver) LacksHostIP(pod *v1.Pod) *status.Cause {
	if len(r.hostIPs()) > 0 || !asksHostIP(pod) {
		return nil
	}
	return &status.Cause{Reason: ReasonWaitingForHostIP, Message: "the pod asks for the node's address, and the node has none: " +
		"it starts as soon as there is a default route; on a network without one give --node-ip"}
}

// asksHostIP reports whether a variable of the pod is made of an address of
// the node: the addresses of a pod on its network are the node's too.
func asksHostIP(pod *v1.Pod) bool {
	asks := func(e v1.EnvVar) bool {
		if e.ValueFrom == nil || e.ValueFrom.FieldRef == nil {
			return false
		}
		switch e.ValueFrom.FieldRef.FieldPath {
		case "status.hostIP", "status.hostIPs":
			return true
		case "status.podIP", "status.podIPs":
			return pod.Spec.HostNetwork
		}
		return false
	}
	for c := range podinfo.EachContainer(&pod.Spec, podinfo.SpecContainers) {
		if slices.ContainsFunc(c.Env, asks) {
			return true
		}
	}
	return false
}
