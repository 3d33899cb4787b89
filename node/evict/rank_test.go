package evict

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// pod returns a running pod; the amounts are requests such as "memory=1Mi", and
// after a dash limits.
func pod(name string, priority int32, amounts ...string) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
		Spec:       v1.PodSpec{Priority: &priority, Containers: []v1.Container{{Name: "app"}}},
		Status: v1.PodStatus{
			Phase:      v1.PodRunning,
			StartTime:  &metav1.Time{Time: time.Unix(0, 0)},
			Conditions: []v1.PodCondition{{Type: v1.PodReadyToStartContainers, Status: v1.ConditionTrue}},
		},
	}
	r := &p.Spec.Containers[0].Resources
	r.Requests, r.Limits = v1.ResourceList{}, v1.ResourceList{}
	for _, amount := range amounts {
		list := r.Requests
		if rest, limit := strings.CutPrefix(amount, "-"); limit {
			list, amount = r.Limits, rest
		}
		key, value, _ := strings.Cut(amount, "=")
		list[v1.ResourceName(key)] = resource.MustParse(value)
	}
	return p
}

func volume(p *v1.Pod, name, limit string) *v1.Pod {
	source := &v1.EmptyDirVolumeSource{}
	if limit != "" {
		q := resource.MustParse(limit)
		source.SizeLimit = &q
	}
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: source}})
	return p
}

func space(bytes, inodes int64) map[string]Space { return map[string]Space{"app": {bytes, inodes}} }

func TestRank(t *testing.T) {
	younger := pod("younger", 0)
	younger.Status.StartTime = &metav1.Time{Time: at(9)}
	for name, c := range map[string]struct {
		signal   Signal
		separate bool
		pods     []*v1.Pod
		usage    map[string]Usage
		want     string
	}{
		"beyond its request before priority": {
			signal: MemoryAvailable,
			pods:   []*v1.Pod{pod("within", -10, "memory=500"), pod("beyond", 10, "memory=10"), pod("critical", 2_000_000_000)},
			usage:  map[string]Usage{"within": {Memory: 500}, "beyond": {Memory: 11}, "critical": {Memory: 9999}},
			want:   "beyond within",
		},
		"priority before usage": {
			signal: MemoryAvailable, pods: []*v1.Pod{pod("high", 5), pod("low", 1)},
			usage: map[string]Usage{"high": {Memory: 999}, "low": {Memory: 1}}, want: "low high",
		},
		"usage beyond request, not usage": {
			signal: MemoryAvailable, pods: []*v1.Pod{pod("large", 0, "memory=900"), pod("leak", 0, "memory=10")},
			usage: map[string]Usage{"large": {Memory: 1000}, "leak": {Memory: 500}}, want: "leak large",
		},
		"the younger of equal pods": {
			signal: AllocatableMemory, pods: []*v1.Pod{pod("older", 0), younger},
			usage: map[string]Usage{"older": {Memory: 5}, "younger": {Memory: 5}}, want: "younger older",
		},
		"process IDs": {
			signal: PIDAvailable, pods: []*v1.Pod{pod("many", 1), pod("few", 0), pod("more", 0)},
			usage: map[string]Usage{"many": {Processes: 900}, "few": {Processes: 2}, "more": {Processes: 3}},
			want:  "more few many",
		},
		"disk with volumes, logs and writable layers": {
			signal: NodeFSAvailable, pods: []*v1.Pod{pod("a", 0, "ephemeral-storage=100"), pod("b", 0)},
			usage: map[string]Usage{
				"a": {Disk: Disk{Volumes: space(50, 1), Logs: space(100, 1), Rootfs: space(60, 1)}}, // 110 over
				"b": {Disk: Disk{Volumes: space(109, 99)}},
			}, want: "a b",
		},
		"the node's disk where images have their own": {
			signal: NodeFSAvailable, separate: true, pods: []*v1.Pod{pod("a", 0), pod("b", 0)},
			usage: map[string]Usage{"a": {Disk: Disk{Rootfs: space(900, 1)}}, "b": {Disk: Disk{Logs: space(1, 1)}}}, want: "b a",
		},
		"the images' disk": {
			signal: ImageFSAvailable, separate: true, pods: []*v1.Pod{pod("a", 0), pod("b", 0)},
			usage: map[string]Usage{"a": {Disk: Disk{Logs: space(900, 1)}}, "b": {Disk: Disk{Rootfs: space(1, 1)}}}, want: "b a",
		},
		"inodes": {
			signal: NodeFSInodes, pods: []*v1.Pod{pod("bytes", 0), pod("inodes", 0)},
			usage: map[string]Usage{"bytes": {Disk: Disk{Logs: space(900, 1)}}, "inodes": {Disk: Disk{Logs: space(1, 5)}}},
			want:  "inodes bytes",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range Rank(c.pods, func(p *v1.Pod) Usage { return c.usage[p.Name] }, c.signal, c.separate) {
				got = append(got, c.Pod.Name)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("%v, want %s", got, c.want)
			}
		})
	}
}

func TestOverLimit(t *testing.T) {
	two := pod("two", 0, "-ephemeral-storage=100")
	two.Spec.Containers = append(two.Spec.Containers,
		v1.Container{Name: "other",
			Resources: v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("50")}}})
	memory := volume(pod("memory", 0), "app", "10")
	memory.Spec.Volumes[0].EmptyDir.Medium = v1.StorageMediumMemory
	for name, c := range map[string]struct {
		pod  *v1.Pod
		disk Disk
		// limit is the exceeded limit, want a part of the message;
		// empty: the pod stays
		limit, want string
		none        bool // it has no limit
	}{
		"none": {pod: volume(pod("p", 0), "app", ""), disk: Disk{Volumes: space(1<<40, 1)}, none: true},
		"an emptyDir": {pod: volume(pod("p", 0), "app", "50Mi"), disk: Disk{Volumes: space(60<<20, 1)},
			limit: "emptydirfs.limit", want: `emptyDir volume "app" (60Mi) exceeds its sizeLimit 50Mi`},
		"exactly the limit": {pod: volume(pod("p", 0), "app", "50Mi"), disk: Disk{Volumes: space(50<<20, 1)}},
		"another volume":    {pod: volume(pod("p", 0), "other", "50Mi"), disk: Disk{Volumes: space(60<<20, 1)}},
		"in memory":         {pod: memory, disk: Disk{Volumes: space(60<<20, 1)}, none: true},
		"a container": {pod: two, disk: Disk{Rootfs: space(60, 1), Logs: space(41, 1)},
			limit: "ephemeralcontainerfs.limit",
			want:  `Container "app" uses 101 of ephemeral storage, which exceeds its limit 100`},
		"the pod": {pod: two, disk: Disk{Rootfs: space(100, 1), Volumes: map[string]Space{"v": {51, 1}}},
			limit: "ephemeralpodfs.limit",
			want:  "The pod uses 151 of ephemeral storage, which exceeds the total limit of its containers 150"},
		"the pod, at limit": {pod: two, disk: Disk{Rootfs: space(100, 1), Volumes: map[string]Space{"v": {50, 1}}}},
	} {
		t.Run(name, func(t *testing.T) {
			limit, got := OverLimit(c.pod, c.disk)
			if limit != c.limit {
				t.Errorf("limit %q, want %q", limit, c.limit)
			}
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			if HasLimits(c.pod) == c.none {
				t.Errorf("HasLimits is %v", !c.none)
			}
		})
	}
}

func TestSize(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0", 1000: "1000", 1 << 20: "1Mi", 200 << 20: "200Mi", 3 << 30: "3Gi",
		1<<20 + 1<<19: "1.5Mi", 1 << 40: "1024Gi"} {
		if got := formatBytes(bytes); got != want {
			t.Errorf("%d is %s, want %s", bytes, got, want)
		}
	}
}
