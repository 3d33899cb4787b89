package status

import (
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// Generate returns the status of a pod. It is pure: the same Input gives the same
// status. The phases, conditions, reasons and messages are the kubelet's, except
// where a comment reports otherwise.
func Generate(in Input) v1.PodStatus {
	if !in.Record.Terminal() {
		in.triggers = cri.RestartTriggers(in.Pod, in.Observed)
	}
	st := v1.PodStatus{
		ObservedGeneration: in.Pod.Generation,
		QOSClass:           podinfo.QOSClass(in.Pod),
		// Those of the cluster, which say which claims the pod has.
		ResourceClaimStatuses:       in.Pod.Status.ResourceClaimStatuses,
		ExtendedResourceClaimStatus: in.Pod.Status.ExtendedResourceClaimStatus,
		StartTime:                   startTime(in),
	}
	if in.Rejected == nil && !in.Record.Rejected || in.Observed != nil && len(in.Observed.Containers) > 0 {
		st.InitContainerStatuses = initStatuses(in)
		st.ContainerStatuses = regularStatuses(in)
		st.EphemeralContainerStatuses = ephemeralStatuses(in)
		endNeverStarted(in, &st)
	}
	st.Phase, st.Reason, st.Message = decidePhase(in, &st)
	setPodResources(in, &st)
	setIPs(in, &st)
	st.Conditions = conditions(in, &st)
	return st
}

// decidePhase returns phase, reason and message. A decision takes precedence over what
// the containers show.
func decidePhase(in Input, st *v1.PodStatus) (v1.PodPhase, string, string) {
	if in.Record.Terminal() {
		return in.Record.Phase, in.Record.Reason, in.Record.Message
	}
	if in.Terminal != nil {
		return in.Terminal.Phase, in.Terminal.Reason, in.Terminal.Message
	}
	if in.Rejected != nil {
		return v1.PodFailed, in.Rejected.Reason, "Pod was rejected: " + in.Rejected.Message
	}
	phase := phaseOf(in, st)
	if finalEnd(in) && !podinfo.IsTerminal(phase) {
		// The clients that wait for the pod to end must not wait forever.
		return v1.PodFailed, "", ""
	}
	if podinfo.IsTerminal(phase) {
		return phase, "", ""
	}
	if in.KillFault != nil {
		return phase, in.KillFault.Reason, in.KillFault.Message
	}
	if phase == v1.PodRunning && anyRunning(st) {
		return phase, "", ""
	}
	// The kubelet reports these by events only. Here the status of a pod that does
	// not start shows the reason too.
	if in.WaitingFor != nil {
		return phase, in.WaitingFor.Reason, in.WaitingFor.Message
	}
	if w, ok := in.Waiting[""]; ok {
		return phase, w.Reason, w.Message
	}
	return phase, "", ""
}

// anyRunning reports whether a container of the pod runs. After a reboot the phase is
// still Running, and no container is.
func anyRunning(st *v1.PodStatus) bool {
	running := func(c v1.ContainerStatus) bool { return c.State.Running != nil }
	return slices.ContainsFunc(st.InitContainerStatuses, running) || slices.ContainsFunc(st.ContainerStatuses, running)
}

func startTime(in Input) *metav1.Time {
	switch {
	case !in.Record.StartTime.IsZero():
		return seconds(in.Record.StartTime)
	case in.Previous != nil && in.Previous.StartTime != nil:
		return in.Previous.StartTime
	}
	return seconds(in.Now)
}

// seconds returns a time with the precision of the API.
func seconds(t time.Time) *metav1.Time {
	at := metav1.NewTime(t).Rfc3339Copy()
	return &at
}

// setIPs fills in the addresses.
func setIPs(in Input, st *v1.PodStatus) {
	for _, ip := range in.HostIPs {
		st.HostIPs = append(st.HostIPs, v1.HostIP{IP: ip})
	}
	if len(st.HostIPs) > 0 {
		st.HostIP = st.HostIPs[0].IP
	}
	for _, ip := range PodIPs(in.Pod, in.Observed, in.HostIPs) {
		st.PodIPs = append(st.PodIPs, v1.PodIP{IP: ip})
	}
	if len(st.PodIPs) > 0 {
		st.PodIP = st.PodIPs[0].IP
	}
}

// PodIPs returns the addresses of a pod for its status: the first of the node's
// primary family, then the first of the other. hostIPs may be empty and observed
// nil.
func PodIPs(pod *v1.Pod, observed *cri.PodStatus, hostIPs []string) []string {
	var all, ips []string
	switch {
	case pod.Spec.HostNetwork:
		all = hostIPs
	case observed != nil:
		all = observed.IPs
	}
	primary6 := len(hostIPs) > 0 && is6(hostIPs[0])
	for _, family6 := range []bool{primary6, !primary6} {
		for _, ip := range all {
			if addr, err := netip.ParseAddr(ip); err == nil && addr.Unmap().Is6() == family6 {
				ips = append(ips, ip)
				break
			}
		}
	}
	return ips
}

func is6(ip string) bool {
	addr, err := netip.ParseAddr(ip)
	return err == nil && addr.Unmap().Is6()
}
