package admit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	podinfo "github.com/podstead/podstead/internal/pod"
)

// reasonOutOf begins the reason of a denial for lack of a resource, whose name ends
// it, as in OutOfcpu.
const reasonOutOf = "OutOf"

// IsShortage reports whether a denial is for lack of a resource of the node.
func IsShortage(reason string) bool { return strings.HasPrefix(reason, reasonOutOf) }

// MissingResource returns the resource for lack of which a pod was denied.
func MissingResource(reason string) string { return strings.TrimPrefix(reason, reasonOutOf) }

// Request is what one pod holds of a node, or requests.
type Request struct {
	// Pod is the pod with its classes resolved.
	Pod       *v1.Pod
	Resources Resources
	// Name is the pod's full name. Ports are the host ports that it requests.
	Name  string
	Ports []podinfo.HostPort
	// Since is when the pod's name was first desired.
	Since time.Time
	// Terminating: the pod is being ended and gives back what it holds.
	Terminating bool
	// Resize: the pod holds a reservation already, and requests this in addition.
	Resize bool
	// Undecided: the pod has not decided yet whether it runs, or what it requests.
	Undecided bool
	// placement is what the pod requires of other pods, nil for nothing.
	placement *placement
}

// NewRequest returns the request of a pod with its classes resolved.
func NewRequest(pod *v1.Pod) Request {
	return Request{Pod: pod, Resources: ResourcesOf(pod), Name: podinfo.FullName(pod), Ports: podinfo.HostPorts(pod),
		placement: placementOf(pod)}
}

// Allocation is what a node has for pods, which pods hold it, and which wait.
type Allocation struct {
	// Capacity is nil for a node without limits. Otherwise hugepages that are not
	// in it are not available; other resources that are not in it are unlimited.
	Capacity Resources
	// Labels are those of the node, which name its domains.
	Labels  map[string]string
	Holders []*Request
	// Waiting are in any order.
	Waiting []*Request
	// Total is what all these hold or request together; nil if it is not known.
	Total Resources
}

// Decision is the response to a request.
type Decision struct {
	// Denied is nil if the pod may have what it requested.
	Denied *Cause
	// Unsatisfiable: the pod requests more than pods can ever have here.
	Unsatisfiable bool
	// BlockedBy is what the denial is for, as a text that changes when that does.
	BlockedBy string
	// Provisional: the denial may not last, because not all pods have decided.
	Provisional bool
	// Victims are to be ended, so that there will be room for a critical pod.
	Victims []*Request
}

// higherPriority reports whether a goes before b: the pod of the higher priority,
// then one that is to start before one that runs and is to grow, then of those that are
// to grow the Guaranteed one, then the one that is desired for longer, then by name. After a reboot a resize that was
// deferred must not take what another pod ran with.
func higherPriority(a, b *Request) bool {
	return cmp.Or(
		cmp.Compare(podinfo.Priority(b.Pod), podinfo.Priority(a.Pod)),
		compareBool(a.Resize, b.Resize),
		compareBool(!growsGuaranteed(a), !growsGuaranteed(b)),
		a.Since.Compare(b.Since),
		strings.Compare(a.Name, b.Name),
		strings.Compare(string(a.Pod.UID), string(b.Pod.UID)),
	) < 0
}

// growsGuaranteed reports whether a Guaranteed pod that runs is to grow.
func growsGuaranteed(r *Request) bool {
	return r.Resize && podinfo.QOSClass(r.Pod) == v1.PodQOSGuaranteed
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// Decide reports whether a pod may have what it requests. Pods that waited longer go
// first: what they can have now is theirs, and what they will have when pods that
// end by themselves have ended is reserved for them, so that small pods that come
// and go never starve a large one. A pod that waits for what only long-running pods
// hold blocks no other pod.
func (r *Allocation) Decide(request *Request) Decision {
	if r.hasHeadroom(request) {
		return Decision{}
	}
	f := r.forecast()
	undecided := slices.ContainsFunc(r.Holders, func(h *Request) bool { return h.Undecided })
	for _, w := range r.queue() {
		if w.Pod.UID == request.Pod.UID {
			continue
		}
		if !higherPriority(w, request) {
			break
		}
		undecided = undecided || w.Undecided
		f.takeTurn(w)
	}
	denied, unsatisfiable := f.deny(request)
	if denied != nil && IsPlacement(denied.Reason) {
		// Any pod may be the one that it has to run next to.
		undecided = undecided || slices.ContainsFunc(r.Waiting,
			func(w *Request) bool { return w.Undecided && w.Pod.UID != request.Pod.UID })
	}
	d := Decision{Denied: denied, BlockedBy: f.blockedBy(request), Unsatisfiable: unsatisfiable,
		Provisional: denied != nil && undecided && !unsatisfiable}
	if denied != nil && !d.Provisional && !unsatisfiable && IsShortage(denied.Reason) && preempts(request) {
		d.Victims = f.victims(request)
	}
	return d
}

// hasHeadroom reports whether there is enough for all pods, no port that two
// request, and no rule about which pods run together.
func (r *Allocation) hasHeadroom(request *Request) bool {
	if r.Total == nil {
		return false
	}
	for name, amount := range request.Resources {
		if capacity, limited := capacityOf(r.Capacity, name); limited && amount > 0 && r.Total[name] > capacity {
			return false
		}
	}
	if request.Resize {
		return true
	}
	ruled := func(s *Request) bool { return s.placement != nil }
	if ruled(request) || slices.ContainsFunc(r.Holders, ruled) || slices.ContainsFunc(r.Waiting, ruled) {
		return false
	}
	if len(request.Ports) == 0 {
		return true
	}
	taken := func(s *Request) bool {
		return s.Pod.UID != request.Pod.UID && !s.Resize && request.conflicts(s)
	}
	return !slices.ContainsFunc(r.Holders, taken) && !slices.ContainsFunc(r.Waiting, taken)
}

// conflicts reports whether two pods cannot have their ports at the same time.
func (s *Request) conflicts(o *Request) bool {
	for _, a := range s.Ports {
		for _, b := range o.Ports {
			if a.Conflicts(b) {
				return true
			}
		}
	}
	return false
}

// Preview is what a waiting pod would be served now: BlockedBy is that of a
// Decision, empty if the pod may have what it requests.
type Preview struct {
	*Request
	BlockedBy string
}

// Previews returns those of all pods that wait.
func (r *Allocation) Previews() []Preview {
	f := r.forecast()
	list := make([]Preview, 0, len(r.Waiting))
	for _, w := range r.queue() {
		p := Preview{w, f.blockedBy(w)}
		if before := f.predecessor(w); before != nil {
			p.BlockedBy = string(before.Pod.UID)
		}
		list = append(list, p)
		f.takeTurn(w)
	}
	return list
}

// queue returns the waiting pods in the order in which they take their turns.
func (r *Allocation) queue() []*Request {
	return slices.SortedFunc(slices.Values(r.Waiting), func(a, b *Request) int {
		if higherPriority(a, b) {
			return -1
		}
		return 1
	})
}

// capacityOf returns what a node has of a resource, and whether that is limited.
func capacityOf(node Resources, name v1.ResourceName) (int64, bool) {
	capacity, known := node[name]
	return capacity, known || node != nil && isHugePages(name)
}

// deny returns why a pod cannot have what it requests, nil if it can; unsatisfiable
// means that it is more than the node has.
func (f *forecast) deny(s *Request) (denied *Cause, unsatisfiable bool) {
	if h := f.portHolder(s, anyHolder); h != nil {
		return PortTaken(s.Pod, h.Pod), false
	}
	if cause := f.misplaced(s, anyHolder); cause != nil {
		return cause, false
	}
	var texts []string
	reason, allocated := "", f.allocated(s)
	for _, name := range s.Resources.names() {
		amount := s.Resources[name]
		if !f.isShort(name, amount) {
			continue
		}
		capacity, _ := capacityOf(f.capacity, name)
		more := ""
		if s.Resize {
			more = " more"
		}
		text := fmt.Sprintf("not enough %s: requested %s%s, used %s, capacity %s", name,
			amountText(name, amount), more, amountText(name, f.used[name]), amountText(name, capacity))
		if f.used[name]+amount <= capacity {
			text += fmt.Sprintf(", of which %s is reserved for pod %s, which goes first", amountText(name, f.reserved[name]),
				podinfo.FullName(f.reservedFor[name]))
		}
		if reason == "" {
			reason = reasonOutOf + string(name)
		}
		texts = append(texts, text)
		unsatisfiable = unsatisfiable || amount+allocated[name] > capacity
	}
	if reason == "" {
		return nil, false
	}
	hint := "the pod starts when there is room"
	switch {
	case unsatisfiable:
		hint = "that is more than pods can ever have on this node; request less"
	case s.Resize:
		hint = "the pod is resized when there is room"
	}
	return &Cause{reason, strings.Join(append(texts, hint), "; ")}, unsatisfiable
}
