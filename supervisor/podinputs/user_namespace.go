package podinputs

import (
	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cri"
	"github.com/podstead/podstead/supervisor/userns"
)

// userNamespace is the range of user IDs of a pod with hostUsers: false, nil
// for one with the host's users. It is the pod's as long as its folder is there.
func (r *Resolver) userNamespace(pod *v1.Pod) (*cri.UserNamespace, error) {
	if pod.Spec.HostUsers == nil || *pod.Spec.HostUsers {
		return nil, nil
	}
	mine, err := r.cfg.Users.Take(pod.UID)
	if err != nil {
		return nil, err
	}
	return &cri.UserNamespace{HostID: mine.HostID, Length: userns.Length}, nil
}
