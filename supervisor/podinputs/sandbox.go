package podinputs

import (
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/userns"
)

// SandboxInputs returns the values for the pod's sandbox; ready reports whether it has
// a ready one. An error of the host name or of DNS is returned only if a sandbox is
// to be created: an existing one keeps what it has.
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
		// New containers in an existing sandbox need its range too.
		return cri.SandboxInputs{}, err
	}
	return cri.SandboxInputs{Hostname: hostname, DNS: resolver, Users: users}, nil
}

// userNamespace returns the range of user IDs of a pod with hostUsers: false, nil
// for a pod with the host's users. The range stays reserved for the pod as long as
// the pod's directory exists.
func (r *Resolver) userNamespace(pod *v1.Pod) (*cri.UserNamespace, error) {
	if pod.Spec.HostUsers == nil || *pod.Spec.HostUsers {
		return nil, nil
	}
	reserved, err := r.cfg.Users.Allocate(pod.UID)
	if err != nil {
		return nil, err
	}
	return &cri.UserNamespace{HostID: reserved.HostID, Length: userns.Length}, nil
}
