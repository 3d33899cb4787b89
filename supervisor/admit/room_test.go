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

func TestNeedsOf(t *testing.T) {
	const r = `resources: {requests: `
	for name, tc := range map[string]struct{ spec, want string }{
		"nothing":               {`{containers: [{name: a}]}`, "1 pods"},
		"the sum of containers": {`{containers: [{name: a, ` + r + `{cpu: 100m, memory: 1Mi}}}, {name: b, ` + r + `{cpu: "1", ephemeral-storage: 1Gi}}}]}`, "1 pods 1100m cpu 1Mi memory 1Gi ephemeral-storage"},
		"the largest init container": {`{initContainers: [{name: i, ` + r + `{cpu: "2"}}}, {name: j, ` + r + `{cpu: "3", memory: 1Mi}}}],
			containers: [{name: a, ` + r + `{cpu: "1", memory: 2Mi}}}]}`, "1 pods 3 cpu 2Mi memory"},
		"sidecars beside those after them": {`{initContainers: [{name: i, ` + r + `{cpu: "2"}}}, {name: s, restartPolicy: Always, ` + r + `{cpu: "1"}}}, {name: j, ` + r + `{cpu: "3"}}}],
			containers: [{name: a, ` + r + `{cpu: "1"}}}]}`, "1 pods 4 cpu"},
		"sidecars beside containers": {`{initContainers: [{name: s, restartPolicy: Always, ` + r + `{cpu: "1"}}}], containers: [{name: a, ` + r + `{cpu: 500m}}}]}`, "1 pods 1500m cpu"},
		"two sidecars": {`{initContainers: [{name: s, restartPolicy: Always, ` + r + `{cpu: "1"}}}, {name: t, restartPolicy: Always, ` + r + `{cpu: "2"}}}],
			containers: [{name: a, ` + r + `{cpu: 500m}}}]}`, "1 pods 3500m cpu"},
		"overhead":       {`{overhead: {cpu: 250m, memory: 1Mi}, containers: [{name: a, ` + r + `{cpu: 500m}}}]}`, "1 pods 750m cpu 1Mi memory"},
		"the pod's own":  {`{overhead: {cpu: 1}, ` + r + `{cpu: 200m}}, containers: [{name: a, ` + r + `{cpu: 500m, memory: 1Mi}}}]}`, "1 pods 1200m cpu 1Mi memory"},
		"hugepages":      {`{containers: [{name: a, ` + r + `{hugepages-2Mi: 4Mi}}}, {name: b, ` + r + `{hugepages-2Mi: 2Mi}}}]}`, "1 pods 6Mi hugepages-2Mi"},
		"other devices":  {`{containers: [{name: a, ` + r + `{example.com/gpu: "1"}}}]}`, "1 pods"},
		"limits are not": {`{containers: [{name: a, resources: {limits: {cpu: "1"}}}]}`, "1 pods"},
	} {
		n := NeedsOf(podOf(t, "p", tc.spec))
		var words []string
		for _, resource := range n.names() {
			words = append(words, amountText(resource, n[resource])+" "+string(resource))
		}
		if got := strings.Join(words, " "); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// cpu is a pod that requests so much; more is the rest of its spec.
func cpu(t testing.TB, name, amount, more string) *Stake {
	pod := podOf(t, name, fmt.Sprintf(`{%s containers: [{name: a, resources: {requests: {cpu: %q}}}]}`, more, amount))
	s := NewStake(pod)
	return &s
}

func since(s *Stake, seconds int64) *Stake {
	s.Since = time.Unix(seconds, 0)
	return s
}

func TestDecide(t *testing.T) {
	has := Needs{v1.ResourceCPU: 4000, v1.ResourceMemory: 1 << 30, v1.ResourceEphemeralStorage: 1 << 30, v1.ResourcePods: 4}
	const never, port = `restartPolicy: Never,`, `hostNetwork: false, initContainers: [{name: s, restartPolicy: Always, ports: [{hostPort: 80}]}],`
	for name, tc := range map[string]struct {
		holders, waiting []*Stake
		asks             *Stake
		reason, words    string
		// can is who of the waiting may have theirs.
		can string
	}{
		"fits exactly": {[]*Stake{cpu(t, "x", "3", "")}, nil, cpu(t, "p", "1", ""), "", "", ""},
		"too much": {[]*Stake{cpu(t, "x", "3", "")}, nil, cpu(t, "p", "1001m", ""), "OutOfcpu",
			"not enough cpu: requested 1001m, used 3, capacity 4; it starts when there is room", ""},
		"more than there is":       {nil, nil, cpu(t, "p", "5", ""), "OutOfcpu", "requested 5, used 0, capacity 4; that is more than pods can ever have", ""},
		"nothing of what is short": {[]*Stake{cpu(t, "x", "4", "")}, nil, cpu(t, "p", "0", ""), "", "", ""},
		"too many pods": {[]*Stake{cpu(t, "a", "0", ""), cpu(t, "b", "0", ""), cpu(t, "c", "0", ""), cpu(t, "d", "0", "")}, nil, cpu(t, "p", "5", ""), "OutOfpods",
			"not enough pods: requested 1, used 4, capacity 4; not enough cpu", ""},
		"hugepages that are not there": {nil, nil, func() *Stake {
			pod := podOf(t, "p", `{containers: [{name: a, resources: {requests: {hugepages-2Mi: 2Mi}}}]}`)
			s := NewStake(pod)
			return &s
		}(), "OutOfhugepages-2Mi", "capacity 0", ""},
		"ephemeral storage": {nil, nil, func() *Stake {
			pod := podOf(t, "p", `{containers: [{name: a, resources: {requests: {ephemeral-storage: 2Gi}}}]}`)
			s := NewStake(pod)
			return &s
		}(), "OutOfephemeral-storage", "requested 2Gi", ""},
		"a port": {[]*Stake{cpu(t, "x", "0", port)}, nil, cpu(t, "p", "0", port), ReasonPorts, "that of pod default/x", ""},

		"what the senior can have is the senior's": {[]*Stake{cpu(t, "x", "2", "")}, []*Stake{since(cpu(t, "old", "2", ""), 1)}, since(cpu(t, "p", "1", ""), 2), "OutOfcpu", "used 4", "old"},
		"the junior has to wait":                   {[]*Stake{cpu(t, "x", "2", "")}, []*Stake{since(cpu(t, "new", "2", ""), 2)}, since(cpu(t, "p", "1", ""), 1), "", "", ""},
		"priority goes before age":                 {[]*Stake{cpu(t, "x", "2", "")}, []*Stake{since(cpu(t, "new", "2", "priority: 1,"), 2)}, since(cpu(t, "p", "1", ""), 1), "OutOfcpu", "used 4", "new"},
		"the port is the senior's":                 {nil, []*Stake{since(cpu(t, "old", "0", port), 1)}, since(cpu(t, "p", "0", port), 2), ReasonPorts, "that of pod default/old", "old"},
		"a name decides at last":                   {nil, []*Stake{cpu(t, "o", "4", ""), cpu(t, "q", "4", "")}, cpu(t, "p", "4", ""), "OutOfcpu", "used 4", "o"},

		// It gets its 4 when the job has ended; nobody may delay that.
		"a large one is not overtaken": {[]*Stake{cpu(t, "job", "2", never)}, []*Stake{since(cpu(t, "large", "4", ""), 1)}, since(cpu(t, "small", "1", never), 2), "OutOfcpu",
			"requested 1, used 2, capacity 4, of which 4 is kept for pod default/large", ""},
		"but by what does not delay it": {[]*Stake{cpu(t, "job", "2", never)}, []*Stake{since(cpu(t, "large", "3", ""), 1)}, since(cpu(t, "small", "1", ""), 2), "", "", ""},
		// Only a person can make room for it.
		"who waits for what lasts holds up nobody": {[]*Stake{cpu(t, "service", "2", "")}, []*Stake{since(cpu(t, "large", "4", ""), 1)}, since(cpu(t, "small", "1", ""), 2), "", "", ""},
		"nor who wants too much":                   {nil, []*Stake{since(cpu(t, "huge", "5", ""), 1)}, since(cpu(t, "small", "4", ""), 2), "", "", ""},
		"what ends is given back": {[]*Stake{ends(cpu(t, "x", "4", ""))}, []*Stake{since(cpu(t, "old", "4", ""), 1)},
			since(cpu(t, "p", "1", ""), 2), "OutOfcpu", "used 4", ""},

		// The next revision of web takes web's place, and no second one.
		"a successor counts once":    {[]*Stake{since(cpu(t, "web", "2", ""), 0)}, []*Stake{named(cpu(t, "web2", "2", ""), "web")}, since(cpu(t, "p", "2", ""), 1), "", "", ""},
		"a successor's growth does":  {[]*Stake{since(cpu(t, "web", "2", ""), 0)}, []*Stake{named(cpu(t, "web2", "3", ""), "web")}, since(cpu(t, "p", "2", ""), 1), "OutOfcpu", "used 3", ""},
		"nobody takes its place":     {[]*Stake{since(cpu(t, "web", "3", ""), 0)}, []*Stake{named(cpu(t, "web2", "3", ""), "web")}, since(cpu(t, "p", "2", ""), 1), "OutOfcpu", "used 3", ""},
		"one that grows":             {[]*Stake{cpu(t, "p", "2", "")}, nil, grows(cpu(t, "p", "4", "")), "", "", ""},
		"one that grows too much":    {[]*Stake{cpu(t, "p", "2", ""), cpu(t, "x", "1", "")}, nil, grows(cpu(t, "p", "4", "")), "OutOfcpu", "requested 2 more, used 3, capacity 4; it is resized when", ""},
		"one that grows beyond all":  {[]*Stake{cpu(t, "p", "3", "")}, nil, grows(cpu(t, "p", "5", "")), "OutOfcpu", "ever have", ""},
		"growing keeps its own port": {[]*Stake{cpu(t, "p", "2", port)}, nil, grows(cpu(t, "p", "4", port)), "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			room := Room{Has: has, Holders: tc.holders, Waiting: append([]*Stake{tc.asks}, tc.waiting...)}
			v := room.Decide(tc.asks)
			room.Total = Needs{}
			for _, s := range slices.Concat(room.Holders, room.Waiting) {
				room.Total.add(s.Needs)
			}
			if counted := room.Decide(tc.asks); (counted.Refusal == nil) != (v.Refusal == nil) {
				t.Errorf("with the total counted it is %+v", counted.Refusal)
			}
			switch {
			case tc.reason == "" && v.Refusal != nil:
				t.Errorf("refused: %+v", v.Refusal)
			case tc.reason != "" && (v.Refusal == nil || v.Refusal.Reason != tc.reason || !strings.Contains(v.Refusal.Message, tc.words)):
				t.Errorf("got %+v, want %s with %q", v.Refusal, tc.reason, tc.words)
			}
			var can []string
			for _, o := range room.Outlooks() {
				switch {
				case o.Stake == tc.asks:
					if o.Obstacle != v.Obstacle || (v.Obstacle == "") != (v.Refusal == nil) {
						t.Errorf("its obstacle is %q, and the outlook %q", v.Obstacle, o.Obstacle)
					}
				case o.Obstacle == "":
					can = append(can, o.Pod.Name)
				}
			}
			if got := strings.Join(can, " "); got != tc.can {
				t.Errorf("%q may have theirs, want %q", got, tc.can)
			}
			if v := (&Room{Holders: tc.holders, Waiting: tc.waiting}).Decide(tc.asks); v.Refusal != nil && v.Refusal.Reason != ReasonPorts {
				t.Errorf("refused where nothing is bounded: %+v", v.Refusal)
			}
		})
	}
}

// grows makes it ask for 2 more.
func grows(s *Stake) *Stake {
	s.Needs, s.Grows = Needs{v1.ResourceCPU: 2000}, true
	return s
}

func ends(s *Stake) *Stake {
	s.Ending = true
	return s
}

func named(s *Stake, name string) *Stake {
	s.Pod.Name = name
	s.Name = podinfo.FullName(s.Pod)
	return s
}

// While somebody has not spoken yet, a refusal may be wrong.
func TestDecideUnsettled(t *testing.T) {
	has := Needs{v1.ResourceCPU: 4000}
	unsure := cpu(t, "x", "2", "")
	unsure.Unsettled = true
	for name, room := range map[string]Room{"holder": {Has: has, Holders: []*Stake{unsure}}, "senior": {Has: has, Waiting: []*Stake{since(unsure, -1)}}} {
		for amount, want := range map[string]string{"2": "", "3": "unsettled", "5": "refused"} {
			v, got := room.Decide(cpu(t, "z", amount, "priority: 2000000000,")), ""
			if v.Unsettled {
				got = "unsettled"
			} else if v.Refusal != nil {
				got = "refused"
			}
			if name == "senior" && amount == "3" {
				want = "" // it is the senior
			}
			if got != want || len(v.Victims) > 0 {
				t.Errorf("%s, %s: %q, want %q; victims %v", name, amount, got, want, v.Victims)
			}
		}
	}
}

func TestVictims(t *testing.T) {
	// 4 cpu and 1 Gi.
	has := Needs{v1.ResourceCPU: 4000, v1.ResourceMemory: 1 << 30, v1.ResourcePods: 5}
	sized := func(name, cpu, memory, class string, priority int32) *Stake {
		limits := ""
		if class == "Guaranteed" {
			limits = fmt.Sprintf(`, limits: {cpu: %s, memory: %s}`, cpu, memory)
		}
		pod := podOf(t, name, fmt.Sprintf(`{priority: %d, containers: [{name: a, resources: {requests: {cpu: %s, memory: %s}%s}}]}`, priority, cpu, memory, limits))
		s := NewStake(pod)
		return &s
	}
	critical := func(cpu, memory string) *Stake { return sized("critical", cpu, memory, "", 2_000_000_000) }
	ending := func(s *Stake) *Stake { s.Ending = true; return s }
	of := func(source string, s *Stake) *Stake {
		s.Pod.Annotations = map[string]string{"kubernetes.io/config.source": source}
		return s
	}
	for name, tc := range map[string]struct {
		asks    *Stake
		holders []*Stake
		want    string
	}{
		"a cluster's for a cluster's": {of("api", critical("2", "0")), []*Stake{of("file", sized("a", "2", "0", "", 0)), of("api", sized("b", "2", "0", "", 0))}, "b"},
		"no manifest's for those":     {of("api", critical("2", "0")), []*Stake{of("file", sized("a", "2", "0", "", 0)), of("http", sized("b", "2", "0", "", 0))}, ""},
		"a cluster's for a file's":    {of("file", critical("2", "0")), []*Stake{of("file", sized("a", "2", "0", "", 2_000_000_000)), of("api", sized("b", "2", "0", "", 0))}, "b"},
		"none is needed":              {critical("1", "0"), []*Stake{sized("a", "3", "0", "", 0)}, ""},
		"the one that is enough":      {critical("2", "0"), []*Stake{sized("a", "1", "0", "", 0), sized("b", "2", "0", "", 0), sized("c", "1", "0", "", 0)}, "b"},
		"two small ones":              {critical("2", "0"), []*Stake{sized("a", "1", "0", "", 0), sized("b", "1", "0", "", 0), sized("c", "2", "0", "Guaranteed", 0)}, "c"},
		"burstable before guaranteed": {critical("1", "1Mi"), []*Stake{sized("a", "2", "2Mi", "Guaranteed", 0), sized("b", "2", "2Mi", "", 0)}, "b"},
		"guaranteed as far as needed": {critical("3", "1Mi"), []*Stake{sized("a", "2", "2Mi", "Guaranteed", 0), sized("b", "1", "2Mi", "", 0), sized("c", "1", "1Mi", "", 0)}, "a c"},
		"best effort for a place":     {critical("0", "0"), []*Stake{sized("a", "1", "0", "", 0), sized("b", "0", "0", "", 0), sized("c", "1", "0", "", 0), sized("d", "1", "1Mi", "Guaranteed", 0), sized("e", "1", "1", "Guaranteed", 0)}, "b"},
		"the least of a kind":         {critical("1", "0"), []*Stake{sized("a", "2", "0", "", 9), sized("b", "2", "0", "", 3)}, "b"},
		"never the like":              {critical("1", "0"), []*Stake{sized("a", "4", "0", "", 2_000_000_000)}, ""},
		"a critical one of less":      {sized("critical", "1", "0", "", 2_000_001_000), []*Stake{sized("a", "4", "0", "", 2_000_000_000)}, "a"},
		"none in vain":                {critical("3", "0"), []*Stake{sized("a", "2", "0", "", 2_000_000_000), sized("b", "2", "0", "", 0)}, ""},
		"not for who is not critical": {sized("p", "1", "0", "", 1_000_000_000), []*Stake{sized("a", "4", "0", "", 0)}, ""},
		"not while others end":        {critical("2", "0"), []*Stake{ending(sized("a", "2", "0", "", 0)), sized("b", "2", "0", "", 0)}, ""},
		"but beside them":             {critical("3", "0"), []*Stake{ending(sized("a", "2", "0", "", 0)), sized("b", "1", "0", "", 0), sized("c", "1", "0", "", 0)}, "b"},
		"two resources":               {critical("1", "512Mi"), []*Stake{sized("a", "1", "1Mi", "", 0), sized("b", "1", "1000Mi", "", 0), sized("c", "2", "1Mi", "", 0)}, "b"},
		"more than there is":          {critical("5", "0"), []*Stake{sized("a", "4", "0", "", 0)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var names []string
			for _, s := range (&Room{Has: has, Holders: tc.holders}).Decide(tc.asks).Victims {
				names = append(names, s.Pod.Name)
			}
			slices.Sort(names)
			if got := strings.Join(names, " "); got != tc.want {
				t.Errorf("%q end, want %q", got, tc.want)
			}
		})
	}
	asks := critical("1", "0")
	policy := v1.PreemptNever
	asks.Pod.Spec.PreemptionPolicy = &policy
	if v := (&Room{Has: has, Holders: []*Stake{sized("a", "4", "0", "", 0)}}).Decide(asks); v.Refusal == nil || len(v.Victims) > 0 {
		t.Errorf("%+v for a pod that preempts nobody", v)
	}
}
