package status

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cri"
)

func TestAddresses(t *testing.T) {
	with := func(ips ...string) *cri.PodStatus { return &cri.PodStatus{IPs: ips} }
	cases := []struct {
		name string
		in   Input
		ip   string
		ips  []string
		host string
	}{
		{"none", Input{Pod: pod("Always")}, "", nil, ""},
		{"one", Input{Pod: pod("Always"), Observed: with("10.0.0.1")}, "10.0.0.1", []string{"10.0.0.1"}, ""},
		{"the first of each family, v4 first",
			Input{Pod: pod("Always"), Observed: with("fd00::1", "10.0.0.1", "10.0.0.2", "fd00::2")},
			"10.0.0.1", []string{"10.0.0.1", "fd00::1"}, ""},
		{"the node's family first", Input{Pod: pod("Always"), Observed: with("10.0.0.1", "fd00::1"),
			HostIPs: []string{"fd00::9"}},
			"fd00::1", []string{"fd00::1", "10.0.0.1"}, "fd00::9"},
		{"garbage", Input{Pod: pod("Always"), Observed: with("", "x", "10.0.0.1")}, "10.0.0.1", []string{"10.0.0.1"}, ""},
		{"host network, as the standalone kubelet", Input{Pod: pod("Always", hostNetwork), Observed: with("192.168.0.2")}, "",
			nil, ""},
		{"host network with the node's", Input{Pod: pod("Always", hostNetwork), HostIPs: []string{"192.168.0.2", "fd00::2"}},
			"192.168.0.2", []string{"192.168.0.2", "fd00::2"}, "192.168.0.2"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.in.Now = now
			st := Generate(c.in)
			var ips []string
			for _, ip := range st.PodIPs {
				ips = append(ips, ip.IP)
			}
			if st.PodIP != c.ip || len(ips) != len(c.ips) || st.HostIP != c.host {
				t.Fatalf("podIP %q podIPs %v hostIP %q, want %q %v %q", st.PodIP, ips, st.HostIP, c.ip, c.ips, c.host)
			}
			for i := range ips {
				if ips[i] != c.ips[i] {
					t.Errorf("podIPs %v, want %v", ips, c.ips)
				}
			}
		})
	}
}

func TestStartTime(t *testing.T) {
	long := metav1.NewTime(earlier)
	cases := []struct {
		name string
		in   Input
		want metav1.Time
	}{
		{"the first", Input{}, *seconds(now)},
		{"published before", Input{Previous: &v1.PodStatus{StartTime: &long}}, long},
		{"recorded", Input{Record: Record{StartTime: earlier.Add(-1e12)}, Previous: &v1.PodStatus{StartTime: &long}},
			*seconds(earlier.Add(-1e12))},
	}
	for _, c := range cases {
		c.in.Pod, c.in.Now = pod("Always"), now
		if got := Generate(c.in).StartTime; !got.Equal(&c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestGenerateWritesToNothing(t *testing.T) {
	p, o := pod("Always", initContainers("i")), observed(running("web"), exited("i", 0))
	prev := Generate(Input{Pod: p, Observed: o, Now: earlier})
	podBefore, prevBefore := p.DeepCopy(), prev.DeepCopy()
	rec := Record{RestartCounts: map[string]int32{"web": 3}}
	st := Generate(Input{Pod: p, Observed: observed(), Previous: &prev, Record: rec, Now: now,
		Waiting: map[string]cri.Waiting{"web": {Reason: "X"}}, Ended: true})
	rec.Observe(&st)
	if !equal(p, podBefore) || !equal(&prev, prevBefore) || rec.RestartCounts["web"] != 3 {
		t.Error("an input was modified")
	}
}

func TestQOSClass(t *testing.T) {
	amounts := func(cpu, memory string) v1.ResourceList {
		l := v1.ResourceList{}
		if cpu != "" {
			l[v1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			l[v1.ResourceMemory] = resource.MustParse(memory)
		}
		return l
	}
	set := func(i int, requests, limits v1.ResourceList) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Containers[i].Resources = v1.ResourceRequirements{Requests: requests, Limits: limits}
		}
	}
	full := amounts("1", "1Gi")
	cases := []struct {
		name string
		pod  *v1.Pod
		want v1.PodQOSClass
	}{
		{"nothing", pod("Always"), v1.PodQOSBestEffort},
		{"zero is nothing", pod("Always", set(0, amounts("0", ""), amounts("", "0"))), v1.PodQOSBestEffort},
		{"other resources do not count",
			pod("Always", set(0, v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse("1Gi")}, nil)),
			v1.PodQOSBestEffort},
		{"equal", pod("Always", set(0, full, full)), v1.PodQOSGuaranteed},
		{"equal, written differently", pod("Always", set(0, amounts("1000m", "1024Mi"), full)), v1.PodQOSGuaranteed},
		{"limits alone", pod("Always", set(0, nil, full)), v1.PodQOSGuaranteed},
		{"lower request", pod("Always", set(0, amounts("500m", "1Gi"), full)), v1.PodQOSBurstable},
		{"cpu alone", pod("Always", set(0, amounts("1", ""), amounts("1", ""))), v1.PodQOSBurstable},
		{"one of two", pod("Always", containers("a", "b"), set(0, full, full)), v1.PodQOSBurstable},
		{"both", pod("Always", containers("a", "b"), set(0, full, full), set(1, full, full)), v1.PodQOSGuaranteed},
		{"init container without", pod("Always", initContainers("i"), set(0, full, full)), v1.PodQOSBurstable},
		{"pod level", pod("Always", func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{Requests: full, Limits: full}
		}), v1.PodQOSGuaranteed},
		{"pod level, nothing", pod("Always", set(0, full, full), func(p *v1.Pod) {
			p.Spec.Resources = &v1.ResourceRequirements{}
		}), v1.PodQOSBestEffort},
	}
	for _, c := range cases {
		if got := Generate(Input{Pod: c.pod, Now: now}).QOSClass; got != c.want {
			t.Errorf("%s: status shows %s, want %s", c.name, got, c.want)
		}
	}
}
