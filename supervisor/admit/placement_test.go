package admit

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstead/podstead/cri"
	podinfo "github.com/podstead/podstead/internal/pod"
)

// labelled returns the request of a pod with labels, such as "app=web,tier=front".
func labelled(t testing.TB, name, labels, spec string) *Request {
	pod := podOf(t, name, `{`+spec+` containers: [{name: a}]}`)
	pod.Labels = map[string]string{}
	for label := range strings.SplitSeq(labels, ",") {
		key, value, _ := strings.Cut(label, "=")
		pod.Labels[key] = value
	}
	s := NewRequest(pod)
	return &s
}

// affinity and anti return the spec of a pod with one required term.
func affinity(term string) string {
	return `affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, ` + term + `}]}},`
}

func anti(term string) string {
	return strings.Replace(affinity(term), "podAffinity", "podAntiAffinity", 1)
}

const selectsWeb = `labelSelector: {matchLabels: {app: web}}`

// spreadOver returns the spec of a pod with a DoNotSchedule constraint.
func spreadOver(rest string) string {
	return `topologySpreadConstraints: [{topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, ` +
		selectsWeb + `, ` + rest + `}],`
}

func TestPlacement(t *testing.T) {
	web, db := labelled(t, "web", "app=web,pod-template-hash=1", ""), labelled(t, "db", "app=db", "")
	inNamespace := func(namespace string, s *Request) *Request {
		s.Pod.Namespace = namespace
		n := NewRequest(s.Pod)
		return &n
	}
	fromAPI := func(s *Request) *Request {
		s.Pod.Annotations = map[string]string{podinfo.AnnotationSource: string(podinfo.SourceAPI)}
		return s
	}
	both := `affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
		{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}, {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}},`
	for name, tc := range map[string]struct {
		holders       []*Request
		request       *Request
		reason, words string
	}{
		"no rule": {[]*Request{web}, db, "", ""},
		"anti-affinity": {[]*Request{db, web}, labelled(t, "p", "", anti(selectsWeb)), ReasonPodAffinity,
			"podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]: the pod must not run on the same " +
				"kubernetes.io/hostname as pod default/web (labelSelector app=web); it starts when that one has ended"},
		"anti-affinity that nothing meets": {[]*Request{db}, labelled(t, "p", "", anti(selectsWeb)), "", ""},
		"anti-affinity of what runs": {[]*Request{labelled(t, "old", "", anti(selectsWeb))}, web, ReasonPodAffinity,
			"[0] of pod default/old: it must not run on the same kubernetes.io/hostname as this pod"},
		"anti-affinity of an API pod": {[]*Request{fromAPI(labelled(t, "old", "", anti(selectsWeb)))}, web,
			ReasonPodAffinity, "of pod default/old"},
		"an ending pod still runs": {[]*Request{ends(labelled(t, "web", "app=web", ""))},
			labelled(t, "p", "", anti(selectsWeb)), ReasonPodAffinity, "when that one has ended"},
		"another domain": {[]*Request{web},
			labelled(t, "p", "", strings.Replace(anti(selectsWeb), "kubernetes.io/hostname", "zone", 1)), "", ""},
		"its own previous revision": {[]*Request{named(labelled(t, "old", "app=web", ""), "p")},
			labelled(t, "p", "app=web", anti(selectsWeb)), "", ""},
		"no selector selects nothing": {[]*Request{web}, labelled(t, "p", "", anti("namespaces: [default]")), "", ""},
		"an empty one selects all": {[]*Request{db}, labelled(t, "p", "", anti("labelSelector: {}")),
			ReasonPodAffinity, "default/db"},
		"the pod's namespace only": {[]*Request{inNamespace("other", labelled(t, "w", "app=web", ""))},
			labelled(t, "p", "", anti(selectsWeb)), "", ""},
		"a listed namespace": {[]*Request{inNamespace("other", labelled(t, "w", "app=web", ""))},
			labelled(t, "p", "", anti(selectsWeb+", namespaces: [other]")), ReasonPodAffinity, "other/w"},
		"all namespaces": {[]*Request{inNamespace("other", labelled(t, "w", "app=web", ""))},
			labelled(t, "p", "", anti(selectsWeb+", namespaceSelector: {}")), ReasonPodAffinity, "other/w"},
		"a selected namespace": {[]*Request{inNamespace("other", labelled(t, "w", "app=web", ""))},
			labelled(t, "p", "", anti(selectsWeb+", namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: other}}")),
			ReasonPodAffinity, "other/w"},
		"another selected namespace": {[]*Request{web},
			labelled(t, "p", "", anti(selectsWeb+", namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: other}}")),
			"", ""},
		"matchLabelKeys": {[]*Request{web},
			labelled(t, "p", "pod-template-hash=2", anti(selectsWeb+", matchLabelKeys: [pod-template-hash]")), "", ""},
		"matchLabelKeys of the same": {[]*Request{web},
			labelled(t, "p", "pod-template-hash=1", anti(selectsWeb+", matchLabelKeys: [pod-template-hash]")), ReasonPodAffinity,
			"default/web"},
		"mismatchLabelKeys": {[]*Request{web},
			labelled(t, "p", "pod-template-hash=1", anti(selectsWeb+", mismatchLabelKeys: [pod-template-hash]")), "", ""},
		"affinity": {[]*Request{web}, labelled(t, "p", "", affinity(selectsWeb)), "", ""},
		"affinity that nothing meets": {[]*Request{db}, labelled(t, "p", "", affinity(selectsWeb)), ReasonPodAffinity,
			"podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]: no pod that labelSelector app=web selects runs on " +
				"the same kubernetes.io/hostname; the pod starts when one does"},
		"the first of its group":          {[]*Request{db}, labelled(t, "p", "app=web", affinity(selectsWeb)), "", ""},
		"one pod must meet all terms":     {[]*Request{web, db}, labelled(t, "p", "", both), ReasonPodAffinity, "app=web"},
		"the term that none meets":        {[]*Request{web}, labelled(t, "p", "app=web", both), ReasonPodAffinity, "app=db"},
		"the scheduler judged an API pod": {[]*Request{db}, fromAPI(labelled(t, "p", "", affinity(selectsWeb))), "", ""},
		"API pods may break rules": {[]*Request{labelled(t, "old", "", anti(selectsWeb))},
			fromAPI(labelled(t, "w", "app=web", "")), "", ""},
		"a spread over one domain": {[]*Request{web}, labelled(t, "p", "app=web", spreadOver("maxSkew: 1")), "", ""},
		"as many domains as there are": {[]*Request{web},
			labelled(t, "p", "app=web", spreadOver("maxSkew: 1, minDomains: 1")), "", ""},
		"more domains than there are": {[]*Request{web, db},
			labelled(t, "p", "app=web", spreadOver("maxSkew: 1, minDomains: 2")), ReasonTopologySpread,
			"spec.topologySpreadConstraints[0]: 1 pods that labelSelector app=web selects run on this kubernetes.io/hostname"},
		"within maxSkew": {[]*Request{web},
			labelled(t, "p", "app=web", spreadOver("maxSkew: 2, minDomains: 2")), "", ""},
		"a pod that does not count": {[]*Request{web}, labelled(t, "p", "app=db", spreadOver("maxSkew: 1, minDomains: 2")),
			"", ""},
		"an ending pod does not count": {[]*Request{ends(labelled(t, "w", "app=web", ""))},
			labelled(t, "p", "app=web", spreadOver("maxSkew: 1, minDomains: 2")), "", ""},
		"ScheduleAnyway": {[]*Request{web},
			labelled(t, "p", "app=web", strings.Replace(spreadOver("maxSkew: 1"), "DoNotSchedule", "ScheduleAnyway", 1)), "",
			""},
	} {
		t.Run(name, func(t *testing.T) {
			r := Allocation{Labels: map[string]string{v1.LabelHostname: "n"}, Holders: tc.holders,
				Waiting: []*Request{tc.request}, Total: Resources{}}
			d := r.Decide(tc.request)
			if got := r.Previews()[0].BlockedBy; (got == "") != (d.Denied == nil) && !strings.Contains(name, "revision") {
				t.Errorf("the preview is blocked by %q", got)
			}
			switch {
			case tc.reason == "" && d.Denied != nil:
				t.Errorf("denied: %+v", d.Denied)
			case tc.reason != "" && (d.Denied == nil || d.Denied.Reason != tc.reason ||
				!strings.Contains(d.Denied.Message, tc.words)):
				t.Errorf("got %+v, want %s with %q", d.Denied, tc.reason, tc.words)
			}
		})
	}
}

// A required affinity and a DoNotSchedule spread need the node's label, an anti-affinity does not.
func TestCheckTopology(t *testing.T) {
	n := &Node{Name: "n", Labels: map[string]string{v1.LabelHostname: "n", "zone": "a"}}
	rack := func(spec string) string { return strings.Replace(spec, v1.LabelHostname, "rack", 1) }
	for spec, want := range map[string]string{
		affinity(selectsWeb): "",
		rack(
			affinity(selectsWeb)): "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: " +
			"this node has no label rack; start podstead with --node-labels=rack=VALUE",
		rack(anti(selectsWeb)): "",
		strings.Replace(affinity(selectsWeb), v1.LabelHostname, "zone", 1): "",
		rack(
			spreadOver("maxSkew: 1")): "spec.topologySpreadConstraints[0].topologyKey: this node has no label rack",
		strings.Replace(rack(spreadOver("maxSkew: 1")), "DoNotSchedule", "ScheduleAnyway", 1): "",
	} {
		pod := labelled(t, "p", "", spec).Pod
		cause := Check(pod, n)
		if (cause == nil) != (want == "") || cause != nil && !strings.HasPrefix(cause.Message, want) {
			t.Errorf("%s: %+v, want %q", spec, cause, want)
		}
		pod.Annotations = map[string]string{podinfo.AnnotationSource: string(podinfo.SourceAPI)}
		if cause := Check(pod, n); cause != nil {
			t.Errorf("an API pod: %+v", cause)
		}
	}
}

// Pods are notified when the pods change: that of an affinity when another one is admitted,
// that of an anti-affinity when another one has ended, each once. Before all pods have decided
// nothing is denied for good.
func TestPlacementNotifies(t *testing.T) {
	notified := map[types.UID]int{}
	a := NewReservations(nil, map[string]string{v1.LabelHostname: "n"}, nothingRuns,
		func(uid types.UID) { notified[uid]++ })
	with, web, without := labelled(t, "with", "", affinity(selectsWeb)).Pod, labelled(t, "web", "app=web", "").Pod,
		labelled(t, "without", "", anti(selectsWeb)).Pod
	for _, pod := range []*v1.Pod{with, web} {
		a.Announce(pod)
	}
	if d := a.Reserve(with, time.Time{}); d.Denied == nil || !d.Provisional {
		t.Errorf("%+v before the other one has decided", d)
	}
	if d := a.Reserve(web, time.Time{}); d.Denied != nil || notified["with"] != 1 {
		t.Fatalf("%+v; notified %v", d, notified)
	}
	if d := a.Reserve(with, time.Time{}); d.Denied != nil {
		t.Errorf("%+v next to the other one", d)
	}
	if d := a.Reserve(without, time.Time{}); d.Denied == nil || d.Provisional {
		t.Fatalf("%+v", d)
	}
	a.Terminating(web.UID)
	if notified["without"] != 0 {
		t.Error("notified while the other one ends")
	}
	a.Release(web.UID, false)
	if want := map[types.UID]int{"with": 1, "without": 1}; !maps.Equal(notified, want) {
		t.Errorf("notified %v, want %v", notified, want)
	}
	if d := a.Reserve(without, time.Time{}); d.Denied != nil {
		t.Errorf("%+v after the other one has ended", d)
	}
	// It runs: what it has is not judged again, although web may not run next to it.
	if d := a.UpdateRunning(web, web, web); d.Denied != nil {
		t.Errorf("%+v for a pod that runs", d)
	}
}

// A pod that waits for others to end does not keep them from the resources that it requests,
// but what ends by itself is kept for it.
func TestPlacementAndResources(t *testing.T) {
	labels := map[string]string{v1.LabelHostname: "n"}
	sized := func(name, label, amount, spec string) *Request {
		s := labelled(t, name, label, spec)
		s.Pod.Spec.Containers[0].Resources.Requests = cpuNode(amount)
		n := NewRequest(s.Pod)
		return &n
	}
	for job, want := range map[string]bool{"": false, "restartPolicy: Never,": true} {
		holder := sized("web", "app=web", "1", job)
		r := Allocation{Capacity: Resources{v1.ResourceCPU: 2000}, Labels: labels, Holders: []*Request{holder}}
		large, small := since(sized("large", "", "2", anti(selectsWeb)), 1), since(sized("small", "", "1", ""), 2)
		r.Waiting = []*Request{large, small}
		if d := r.Decide(small); (d.Denied != nil) != want {
			t.Errorf("%q: %+v", job, d.Denied)
		}
	}
	if !slices.Contains(Reasons, ReasonAffinity) || !IsPlacement(ReasonPodAffinity) || IsPlacement(ReasonAffinity) {
		t.Error("reasons")
	}
}

// A pod that runs without a manifest counts with the labels of its sandbox.
func TestUntrackedPodCountsForPlacement(t *testing.T) {
	running := &cri.Pod{UID: "old", Name: "old", Namespace: "default",
		Sandboxes: []cri.Sandbox{{Ready: true, Labels: map[string]string{"app": "web"}}}}
	a := NewReservations(nil, map[string]string{v1.LabelHostname: "n"},
		func() *cri.Observed { return &cri.Observed{Own: []*cri.Pod{running}} }, func(types.UID) {})
	if d := a.Reserve(labelled(t, "p", "", anti(selectsWeb)).Pod, time.Time{}); d.Denied == nil ||
		d.Denied.Reason != ReasonPodAffinity {
		t.Errorf("%+v", d)
	}
}
