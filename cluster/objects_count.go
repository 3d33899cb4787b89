package cluster

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/manifest"
)

const (
	// maxPodReferences and maxReferences are how many ConfigMaps, Secrets, claims, drivers of inline CSI volumes and
	// tokens one pod may refer to, and all pods. Each but a driver is a watch or a timer, which costs about 30 KB, also
	// if there is no such object. A driver may need tokens.
	maxPodReferences = 256
	maxReferences    = 2048
)

// podReferences is what a pod refers to and is watched for it. All pods share the watch of
// the services.
type podReferences struct {
	pod    *v1.Pod
	refs   []manifest.ObjectRef
	tokens []tokenKey
	claims []claimKey
	// drivers are those of inline CSI volumes.
	drivers []string
}

func (p *podReferences) count() int {
	n := len(p.tokens) + len(p.claims) + len(p.drivers)
	for _, ref := range p.refs {
		if ref.Kind != kindService {
			n++
		}
	}
	return n
}

// watchSet is what the pods refer to as far as it is watched.
type watchSet struct {
	refs   map[manifest.ObjectRef]bool
	tokens map[tokenKey]bool
	claims map[claimKey]bool
	// drivers are those of inline CSI volumes.
	drivers map[string]bool
	// counts are how many they are.
	counts namespaceShares
	// admitted has the references of pods that are watched; held has why those of other pods
	// are not, or only those that a pod had before it referred to more.
	admitted map[types.UID]*podReferences
	held     map[types.UID]string
}

// selectWatches returns what is to be watched for the pods. Those that were admitted before
// keep their references whatever others add. A daemon that starts admits those that run, as
// they are. The older ones of the others come first.
func (o *Objects) selectWatches(pods map[string]*v1.Pod, before map[types.UID]*podReferences) *watchSet {
	w := &watchSet{
		refs: map[manifest.ObjectRef]bool{}, tokens: map[tokenKey]bool{}, claims: map[claimKey]bool{},
		drivers:  map[string]bool{},
		counts:   newNamespaceShares(o.maxReferences),
		admitted: map[types.UID]*podReferences{}, held: map[types.UID]string{},
	}
	var rest []*podReferences
	for _, pod := range pods {
		if isMirror(pod) || podinfo.IsTerminal(pod.Status.Phase) {
			continue
		}
		p := &podReferences{pod: pod, refs: o.watchedBy(pod), tokens: tokensOf(pod).items, claims: claimsOf(pod).items,
			drivers: driversOf(pod)}
		switch known := before[pod.UID]; {
		case known != nil && p.count() <= known.count(), before == nil && hasRun(pod):
			w.add(p)
		case known != nil:
			w.add(known)
			rest = append(rest, p)
		default:
			rest = append(rest, p)
		}
	}
	slices.SortFunc(rest, func(a, b *podReferences) int {
		return cmp.Or(a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time), cmp.Compare(key(a.pod), key(b.pod)))
	})
	for _, p := range rest {
		if why := w.refusal(p); why != "" {
			w.held[p.pod.UID] = why
		} else {
			w.add(p)
		}
	}
	return w
}

// hasRun reports whether the cluster knows that a container of a pod was started.
func hasRun(pod *v1.Pod) bool {
	started := func(s v1.ContainerStatus) bool { return s.State.Waiting == nil && s.ContainerID != "" }
	return pod.Status.Phase == v1.PodRunning ||
		slices.ContainsFunc(pod.Status.InitContainerStatuses, started) ||
		slices.ContainsFunc(pod.Status.ContainerStatuses, started)
}

// refusal returns why the references of a pod are too many, empty if they are not. As for
// the size, a namespace may have half of what others leave, and a few if they leave nothing.
func (w *watchSet) refusal(p *podReferences) string {
	if n := p.count(); n > maxPodReferences {
		return fmt.Sprintf(
			"the pod refers to %d ConfigMaps, Secrets, claims, CSI drivers and tokens; a pod may refer to %d; "+
				"refer to fewer", n, maxPodReferences)
	}
	if !w.counts.fits(p.pod.Namespace, 0, w.added(p)) {
		return fmt.Sprintf("with it, the namespace's pods on this node refer to more ConfigMaps, Secrets, claims, CSI "+
			"drivers and tokens than half of what other namespaces leave of %d; it waits until other pods are deleted",
			w.counts.max)
	}
	return ""
}

// added returns how many references of a pod are not watched yet.
func (w *watchSet) added(p *podReferences) int {
	n := 0
	for _, key := range p.tokens {
		if !w.tokens[key] {
			n++
		}
	}
	for _, key := range p.claims {
		if !w.claims[key] {
			n++
		}
	}
	for _, name := range p.drivers {
		if !w.drivers[name] {
			n++
		}
	}
	for _, ref := range p.refs {
		if ref.Kind != kindService && !w.refs[ref] {
			n++
		}
	}
	return n
}

func (w *watchSet) add(p *podReferences) {
	w.counts.resize(p.pod.Namespace, w.added(p))
	for _, ref := range p.refs {
		w.refs[ref] = true
	}
	for _, key := range p.tokens {
		w.tokens[key] = true
	}
	for _, key := range p.claims {
		w.claims[key] = true
	}
	for _, name := range p.drivers {
		w.drivers[name] = true
	}
	w.admitted[p.pod.UID] = p
}

// Held returns why not all objects of a pod are watched, empty if they are.
func (o *Objects) Held(pod *v1.Pod) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held[pod.UID]
}
