package admit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	podinfo "github.com/podstead/podstead/internal/pod"
)

func podOf(t testing.TB, name, spec string) *v1.Pod {
	t.Helper()
	pod := &v1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(spec), &pod.Spec); err != nil {
		t.Fatal(err)
	}
	pod.Namespace, pod.Name, pod.UID = "default", name, types.UID(name)
	return pod
}

func TestResourcesOf(t *testing.T) {
	const r = `resources: {requests: `
	for name, tc := range map[string]struct{ spec, want string }{
		"nothing": {`{containers: [{name: a}]}`, "1 pods"},
		"the sum of containers": {`{containers: [{name: a, ` + r + `{cpu: 100m, memory: 1Mi}}}, {name: b, ` + r +
			`{cpu: "1", ephemeral-storage: 1Gi}}}]}`, "1 pods 1100m cpu 1Mi memory 1Gi ephemeral-storage"},
		"the largest init container": {`{initContainers: [{name: i, ` + r + `{cpu: "2"}}}, {name: j, ` + r +
			`{cpu: "3", memory: 1Mi}}}],
			containers: [{name: a, ` + r + `{cpu: "1", memory: 2Mi}}}]}`, "1 pods 3 cpu 2Mi memory"},
		"sidecars and later init containers": {`{initContainers: [{name: i, ` + r +
			`{cpu: "2"}}}, {name: s, restartPolicy: Always, ` + r + `{cpu: "1"}}}, {name: j, ` + r + `{cpu: "3"}}}],
			containers: [{name: a, ` + r + `{cpu: "1"}}}]}`, "1 pods 4 cpu"},
		"sidecars and containers": {`{initContainers: [{name: s, restartPolicy: Always, ` + r +
			`{cpu: "1"}}}], containers: [{name: a, ` + r + `{cpu: 500m}}}]}`, "1 pods 1500m cpu"},
		"two sidecars": {`{initContainers: [{name: s, restartPolicy: Always, ` + r +
			`{cpu: "1"}}}, {name: t, restartPolicy: Always, ` + r + `{cpu: "2"}}}],
			containers: [{name: a, ` + r + `{cpu: 500m}}}]}`, "1 pods 3500m cpu"},
		"overhead": {`{overhead: {cpu: 250m, memory: 1Mi}, containers: [{name: a, ` + r + `{cpu: 500m}}}]}`,
			"1 pods 750m cpu 1Mi memory"},
		"pod-level requests": {`{overhead: {cpu: 1}, ` + r + `{cpu: 200m}}, containers: [{name: a, ` + r +
			`{cpu: 500m, memory: 1Mi}}}]}`, "1 pods 1200m cpu 1Mi memory"},
		"hugepages": {`{containers: [{name: a, ` + r + `{hugepages-2Mi: 4Mi}}}, {name: b, ` + r +
			`{hugepages-2Mi: 2Mi}}}]}`, "1 pods 6Mi hugepages-2Mi"},
		"devices":             {`{containers: [{name: a, ` + r + `{example.com/gpu: "1"}}}]}`, "1 pods"},
		"limits do not count": {`{containers: [{name: a, resources: {limits: {cpu: "1"}}}]}`, "1 pods"},
	} {
		n := ResourcesOf(podOf(t, "p", tc.spec))
		var words []string
		for _, resource := range n.names() {
			words = append(words, amountText(resource, n[resource])+" "+string(resource))
		}
		if got := strings.Join(words, " "); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// cpu returns the request of a pod for this much CPU; more is the rest of its spec.
func cpu(t testing.TB, name, amount, more string) *Request {
	pod := podOf(t, name, fmt.Sprintf(`{%s containers: [{name: a, resources: {requests: {cpu: %q}}}]}`, more, amount))
	s := NewRequest(pod)
	return &s
}

func since(s *Request, seconds int64) *Request {
	s.Since = time.Unix(seconds, 0)
	return s
}

func TestDecide(t *testing.T) {
	has := Resources{v1.ResourceCPU: 4000, v1.ResourceMemory: 1 << 30, v1.ResourceEphemeralStorage: 1 << 30,
		v1.ResourcePods: 4}
	const never, port = `restartPolicy: Never,`,
		`hostNetwork: false, initContainers: [{name: s, restartPolicy: Always, ports: [{hostPort: 80}]}],`
	for name, tc := range map[string]struct {
		holders, waiting []*Request
		request          *Request
		reason, words    string
		// unblocked are the waiting pods that may get their request.
		unblocked string
	}{
		"fits exactly": {[]*Request{cpu(t, "x", "3", "")}, nil, cpu(t, "p", "1", ""), "", "", ""},
		"too much": {[]*Request{cpu(t, "x", "3", "")}, nil, cpu(t, "p", "1001m", ""), "OutOfcpu",
			"not enough cpu: requested 1001m, used 3, capacity 4; the pod starts when there is room", ""},
		"more than the capacity": {nil, nil, cpu(t, "p", "5", ""), "OutOfcpu",
			"requested 5, used 0, capacity 4; that is more than pods can ever have", ""},
		"no request for what is short": {[]*Request{cpu(t, "x", "4", "")}, nil, cpu(t, "p", "0", ""), "", "", ""},
		"too many pods": {[]*Request{cpu(t, "a", "0", ""), cpu(t, "b", "0", ""), cpu(t, "c", "0", ""), cpu(t, "d", "0", "")},
			nil, cpu(t, "p", "5", ""), "OutOfpods",
			"not enough pods: requested 1, used 4, capacity 4; not enough cpu", ""},
		"hugepages without capacity": {nil, nil, func() *Request {
			pod := podOf(t, "p", `{containers: [{name: a, resources: {requests: {hugepages-2Mi: 2Mi}}}]}`)
			s := NewRequest(pod)
			return &s
		}(), "OutOfhugepages-2Mi", "capacity 0", ""},
		"ephemeral storage": {nil, nil, func() *Request {
			pod := podOf(t, "p", `{containers: [{name: a, resources: {requests: {ephemeral-storage: 2Gi}}}]}`)
			s := NewRequest(pod)
			return &s
		}(), "OutOfephemeral-storage", "requested 2Gi", ""},
		"a port": {[]*Request{cpu(t, "x", "0", port)}, nil, cpu(t, "p", "0", port), ReasonPorts, "in use by pod default/x",
			""},

		"the older request goes first": {[]*Request{cpu(t, "x", "2", "")}, []*Request{since(cpu(t, "old", "2", ""), 1)},
			since(cpu(t, "p", "1", ""), 2), "OutOfcpu", "used 4", "old"},
		"the newer request waits": {[]*Request{cpu(t, "x", "2", "")}, []*Request{since(cpu(t, "new", "2", ""), 2)},
			since(cpu(t, "p", "1", ""), 1), "", "", ""},
		"priority goes before age": {[]*Request{cpu(t, "x", "2", "")},
			[]*Request{since(cpu(t, "new", "2", "priority: 1,"), 2)}, since(cpu(t, "p", "1", ""), 1), "OutOfcpu", "used 4",
			"new"},
		"the older request gets the port": {nil, []*Request{since(cpu(t, "old", "0", port), 1)},
			since(cpu(t, "p", "0", port), 2), ReasonPorts, "in use by pod default/old", "old"},
		"the name breaks a tie": {nil, []*Request{cpu(t, "o", "4", ""), cpu(t, "q", "4", "")}, cpu(t, "p", "4", ""),
			"OutOfcpu", "used 4", "o"},

		// It gets its 4 CPUs when the job has terminated; no other pod
		// may delay that.
		"a large pod is not overtaken": {[]*Request{cpu(t, "job", "2", never)},
			[]*Request{since(cpu(t, "large", "4", ""), 1)}, since(cpu(t, "small", "1", never), 2), "OutOfcpu",
			"requested 1, used 2, capacity 4, of which 4 is reserved for pod default/large", ""},
		"except by a pod that does not delay it": {[]*Request{cpu(t, "job", "2", never)},
			[]*Request{since(cpu(t, "large", "3", ""), 1)}, since(cpu(t, "small", "1", ""), 2), "", "", ""},
		// Only the user can make room for it.
		"waiting for long-running pods blocks no pod": {[]*Request{cpu(t, "service", "2", "")},
			[]*Request{since(cpu(t, "large", "4", ""), 1)}, since(cpu(t, "small", "1", ""), 2), "", "", ""},
		"an unsatisfiable request blocks no pod": {nil, []*Request{since(cpu(t, "huge", "5", ""), 1)},
			since(cpu(t, "small", "4", ""), 2), "", "", ""},
		"a terminating pod releases": {[]*Request{ends(cpu(t, "x", "4", ""))}, []*Request{since(cpu(t, "old", "4", ""), 1)},
			since(cpu(t, "p", "1", ""), 2), "OutOfcpu", "used 4", ""},

		// The next revision of web replaces web, and counts once.
		"a successor counts once": {[]*Request{since(cpu(t, "web", "2", ""), 0)},
			[]*Request{named(cpu(t, "web2", "2", ""), "web")}, since(cpu(t, "p", "2", ""), 1), "", "", ""},
		"a successor's growth does": {[]*Request{since(cpu(t, "web", "2", ""), 0)},
			[]*Request{named(cpu(t, "web2", "3", ""), "web")}, since(cpu(t, "p", "2", ""), 1), "OutOfcpu", "used 3", ""},
		"its place is not taken": {[]*Request{since(cpu(t, "web", "3", ""), 0)},
			[]*Request{named(cpu(t, "web2", "3", ""), "web")}, since(cpu(t, "p", "2", ""), 1), "OutOfcpu", "used 3", ""},
		"resize": {[]*Request{cpu(t, "p", "2", "")}, nil, resizes(cpu(t, "p", "4", "")), "", "", ""},
		"resize without room": {[]*Request{cpu(t, "p", "2", ""), cpu(t, "x", "1", "")}, nil,
			resizes(cpu(t, "p", "4", "")), "OutOfcpu", "requested 2 more, used 3, capacity 4; the pod is resized when", ""},
		"unsatisfiable resize": {[]*Request{cpu(t, "p", "3", "")}, nil, resizes(cpu(t, "p", "5", "")), "OutOfcpu",
			"ever have", ""},
		"resize keeps its own port": {[]*Request{cpu(t, "p", "2", port)}, nil, resizes(cpu(t, "p", "4", port)), "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			allocation := Allocation{Capacity: has, Holders: tc.holders, Waiting: append([]*Request{tc.request}, tc.waiting...)}
			v := allocation.Decide(tc.request)
			allocation.Total = Resources{}
			for _, s := range slices.Concat(allocation.Holders, allocation.Waiting) {
				allocation.Total.add(s.Resources)
			}
			if counted := allocation.Decide(tc.request); (counted.Denied == nil) != (v.Denied == nil) {
				t.Errorf("with the total known: %+v", counted.Denied)
			}
			switch {
			case tc.reason == "" && v.Denied != nil:
				t.Errorf("denied: %+v", v.Denied)
			case tc.reason != "" && (v.Denied == nil || v.Denied.Reason != tc.reason ||
				!strings.Contains(v.Denied.Message, tc.words)):
				t.Errorf("got %+v, want %s with %q", v.Denied, tc.reason, tc.words)
			}
			var unblocked []string
			for _, o := range allocation.Previews() {
				switch {
				case o.Request == tc.request:
					if o.BlockedBy != v.BlockedBy || (v.BlockedBy == "") != (v.Denied == nil) {
						t.Errorf("blocked by %q, and by %q in the preview", v.BlockedBy, o.BlockedBy)
					}
				case o.BlockedBy == "":
					unblocked = append(unblocked, o.Pod.Name)
				}
			}
			if got := strings.Join(unblocked, " "); got != tc.unblocked {
				t.Errorf("unblocked: %q, want %q", got, tc.unblocked)
			}
			if v := (&Allocation{Holders: tc.holders, Waiting: tc.waiting}).Decide(tc.request); v.Denied != nil &&
				v.Denied.Reason != ReasonPorts {
				t.Errorf("denied on a node without limits: %+v", v.Denied)
			}
		})
	}
}

// resizes turns the case into a resize by 2 CPUs.
func resizes(s *Request) *Request {
	s.Resources, s.Resize = Resources{v1.ResourceCPU: 2000}, true
	return s
}

func ends(s *Request) *Request {
	s.Terminating = true
	return s
}

func named(s *Request, name string) *Request {
	s.Pod.Name = name
	s.Name = podinfo.FullName(s.Pod)
	return s
}

// While a pod has not been decided yet, a denial may be wrong.
func TestDecideProvisional(t *testing.T) {
	has := Resources{v1.ResourceCPU: 4000}
	undecided := cpu(t, "x", "2", "")
	undecided.Undecided = true
	for name, allocation := range map[string]Allocation{"holder": {Capacity: has, Holders: []*Request{undecided}},
		"first": {Capacity: has, Waiting: []*Request{since(undecided, -1)}}} {
		for amount, want := range map[string]string{"2": "", "3": "provisional", "5": "denied"} {
			d, got := allocation.Decide(cpu(t, "z", amount, "priority: 2000000000,")), ""
			if d.Provisional {
				got = "provisional"
			} else if d.Denied != nil {
				got = "denied"
			}
			if name == "first" && amount == "3" {
				want = "" // decided first
			}
			if got != want || len(d.Victims) > 0 {
				t.Errorf("%s, %s: %q, want %q; victims %v", name, amount, got, want, d.Victims)
			}
		}
	}
}

func TestVictims(t *testing.T) {
	// 4 cpu and 1 Gi.
	has := Resources{v1.ResourceCPU: 4000, v1.ResourceMemory: 1 << 30, v1.ResourcePods: 5}
	sized := func(name, cpu, memory, class string, priority int32) *Request {
		limits := ""
		if class == "Guaranteed" {
			limits = fmt.Sprintf(`, limits: {cpu: %s, memory: %s}`, cpu, memory)
		}
		pod := podOf(t, name,
			fmt.Sprintf(`{priority: %d, containers: [{name: a, resources: {requests: {cpu: %s, memory: %s}%s}}]}`, priority, cpu,
				memory, limits))
		s := NewRequest(pod)
		return &s
	}
	critical := func(cpu, memory string) *Request { return sized("critical", cpu, memory, "", 2_000_000_000) }
	ending := func(s *Request) *Request { s.Terminating = true; return s }
	from := func(source string, s *Request) *Request {
		s.Pod.Annotations = map[string]string{"kubernetes.io/config.source": source}
		return s
	}
	for name, tc := range map[string]struct {
		request *Request
		holders []*Request
		want    string
	}{
		"API pod for an API pod": {from("api", critical("2", "0")),
			[]*Request{from("file", sized("a", "2", "0", "", 0)), from("api", sized("b", "2", "0", "", 0))}, "b"},
		"no static pod for an API pod": {from("api", critical("2", "0")),
			[]*Request{from("file", sized("a", "2", "0", "", 0)), from("http", sized("b", "2", "0", "", 0))}, ""},
		"API pod for a static pod": {from("file", critical("2", "0")),
			[]*Request{from("file", sized("a", "2", "0", "", 2_000_000_000)), from("api", sized("b", "2", "0", "", 0))}, "b"},
		"none is needed": {critical("1", "0"), []*Request{sized("a", "3", "0", "", 0)}, ""},
		"the single pod that suffices": {critical("2", "0"),
			[]*Request{sized("a", "1", "0", "", 0), sized("b", "2", "0", "", 0), sized("c", "1", "0", "", 0)}, "b"},
		"two small ones": {critical("2", "0"),
			[]*Request{sized("a", "1", "0", "", 0), sized("b", "1", "0", "", 0), sized("c", "2", "0", "Guaranteed", 0)}, "c"},
		"burstable before guaranteed": {critical("1", "1Mi"),
			[]*Request{sized("a", "2", "2Mi", "Guaranteed", 0), sized("b", "2", "2Mi", "", 0)}, "b"},
		"guaranteed as far as needed": {critical("3", "1Mi"),
			[]*Request{sized("a", "2", "2Mi", "Guaranteed", 0), sized("b", "1", "2Mi", "", 0), sized("c", "1", "1Mi", "", 0)},
			"a c"},
		"best effort for a pod slot": {critical("0", "0"),
			[]*Request{sized("a", "1", "0", "", 0), sized("b", "0", "0", "", 0), sized("c", "1", "0", "", 0),
				sized("d", "1", "1Mi", "Guaranteed", 0), sized("e", "1", "1", "Guaranteed", 0)}, "b"},
		"the lowest priority of a class": {critical("1", "0"),
			[]*Request{sized("a", "2", "0", "", 9), sized("b", "2", "0", "", 3)}, "b"},
		"not of the same priority": {critical("1", "0"), []*Request{sized("a", "4", "0", "", 2_000_000_000)}, ""},
		"a critical pod of lower priority": {sized("critical", "1", "0", "", 2_000_001_000),
			[]*Request{sized("a", "4", "0", "", 2_000_000_000)}, "a"},
		"none without effect": {critical("3", "0"),
			[]*Request{sized("a", "2", "0", "", 2_000_000_000), sized("b", "2", "0", "", 0)}, ""},
		"not for a pod that is not critical": {sized("p", "1", "0", "", 1_000_000_000),
			[]*Request{sized("a", "4", "0", "", 0)}, ""},
		"not while others end": {critical("2", "0"),
			[]*Request{ending(sized("a", "2", "0", "", 0)), sized("b", "2", "0", "", 0)}, ""},
		"but in addition to them": {critical("3", "0"),
			[]*Request{ending(sized("a", "2", "0", "", 0)), sized("b", "1", "0", "", 0), sized("c", "1", "0", "", 0)}, "b"},
		"two resources": {critical("1", "512Mi"),
			[]*Request{sized("a", "1", "1Mi", "", 0), sized("b", "1", "1000Mi", "", 0), sized("c", "2", "1Mi", "", 0)}, "b"},
		"more than the capacity": {critical("5", "0"), []*Request{sized("a", "4", "0", "", 0)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var names []string
			for _, s := range (&Allocation{Capacity: has, Holders: tc.holders}).Decide(tc.request).Victims {
				names = append(names, s.Pod.Name)
			}
			slices.Sort(names)
			if got := strings.Join(names, " "); got != tc.want {
				t.Errorf("%q end, want %q", got, tc.want)
			}
		})
	}
	request := critical("1", "0")
	policy := v1.PreemptNever
	request.Pod.Spec.PreemptionPolicy = &policy
	if v := (&Allocation{Capacity: has, Holders: []*Request{sized("a", "4", "0", "", 0)}}).Decide(
		request); v.Denied == nil || len(v.Victims) > 0 {
		t.Errorf("%+v for a pod with preemptionPolicy Never", v)
	}
}
