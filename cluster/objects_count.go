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
	// maxPodReferences and maxReferences are how many ConfigMaps, Secrets and tokens one pod
	// may refer to, and all pods. Each is a watch or a timer, which costs about 30 KB, also
	// if there is no such object.
	maxPodReferences = 256
	maxReferences    = 2000
)

// podReferences is what a pod refers to and is watched for it. All pods share the watch of
// the services.
type podReferences struct {
	pod    *v1.Pod
	refs   []manifest.ObjectRef
	tokens []tokenKey
}

func (p *podReferences) count() int {
	n := len(p.tokens)
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
	// counts are by namespace, total is their sum.
	counts map[string]int
	total  int
	// admitted has the numbers of references of the pods whose references are watched; held
	// has why those of others are not.
	admitted map[types.UID]int
	held     map[types.UID]string
}

// selectWatches returns what is to be watched for the pods. Those that were admitted before
// keep their references whatever others add, then come those that run, which a daemon that
// starts finds, then the older ones.
func (o *Objects) selectWatches(pods map[string]*v1.Pod, before map[types.UID]int) *watchSet {
	w := &watchSet{
		refs: map[manifest.ObjectRef]bool{}, tokens: map[tokenKey]bool{}, counts: map[string]int{},
		admitted: map[types.UID]int{}, held: map[types.UID]string{},
	}
	var rest []*podReferences
	for _, pod := range pods {
		if isMirror(pod) || podinfo.IsTerminal(pod.Status.Phase) {
			continue
		}
		p := &podReferences{pod: pod, refs: o.watchedBy(pod), tokens: tokensOf(pod)}
		if known, ok := before[pod.UID]; ok && p.count() <= known {
			w.add(p)
		} else {
			rest = append(rest, p)
		}
	}
	slices.SortFunc(rest, func(a, b *podReferences) int {
		if x, y := runs(a.pod), runs(b.pod); x != y {
			if x {
				return -1
			}
			return 1
		}
		return cmp.Or(a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time), cmp.Compare(key(a.pod), key(b.pod)))
	})
	for _, p := range rest {
		if why := w.refusal(p, o.maxReferences); why != "" {
			w.held[p.pod.UID] = why
		} else {
			w.add(p)
		}
	}
	return w
}

// runs reports whether the cluster knows that a pod runs.
func runs(pod *v1.Pod) bool { return pod.Status.Phase == v1.PodRunning }

// refusal returns why the references of a pod are too many, empty if they are not. As for
// the size, a namespace may have half of what others leave. A pod that runs was admitted
// once, maybe when others left more, or by a version that did not count.
func (w *watchSet) refusal(p *podReferences, limit int) string {
	n := p.count()
	if n > maxPodReferences && !runs(p.pod) {
		return fmt.Sprintf("the pod refers to %d ConfigMaps, Secrets and tokens; a pod may refer to %d", n, maxPodReferences)
	}
	added := w.added(p)
	if w.total+added > limit {
		return fmt.Sprintf("with it, the pods on this node refer to more than %d ConfigMaps, Secrets and tokens", limit)
	}
	own := w.counts[p.pod.Namespace]
	if !runs(p.pod) && own+added > (limit-(w.total-own))/2 {
		return fmt.Sprintf("with it, the namespace's pods on this node refer to more ConfigMaps, Secrets and tokens than half of what other namespaces leave of %d", limit)
	}
	return ""
}

// added returns how many references of a pod are not watched yet.
func (w *watchSet) added(p *podReferences) int {
	n := len(p.tokens)
	for _, ref := range p.refs {
		if ref.Kind != kindService && !w.refs[ref] {
			n++
		}
	}
	return n
}

func (w *watchSet) add(p *podReferences) {
	added := w.added(p)
	w.counts[p.pod.Namespace] += added
	w.total += added
	for _, ref := range p.refs {
		w.refs[ref] = true
	}
	for _, key := range p.tokens {
		w.tokens[key] = true
	}
	w.admitted[p.pod.UID] = p.count()
}

// Held returns why the objects of a pod are not watched, empty if they are.
func (o *Objects) Held(pod *v1.Pod) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.held[pod.UID]
}
