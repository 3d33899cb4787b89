package zone

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// pod returns a Ready pod with addresses.
func pod(name, namespace, ips string, change ...func(*v1.Pod)) Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name + "-node", Namespace: namespace,
		Labels: map[string]string{"app": name}}}
	p.Status.Phase = v1.PodRunning
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	for ip := range strings.FieldsSeq(ips) {
		p.Status.PodIPs = append(p.Status.PodIPs, v1.PodIP{IP: ip})
	}
	for _, c := range change {
		c(p)
	}
	return Pod{Pod: p, Base: name}
}

func notReady(p *v1.Pod)    { p.Status.Conditions[0].Status = v1.ConditionFalse }
func terminating(p *v1.Pod) { now := metav1.Now(); p.DeletionTimestamp = &now }
func onHost(p *v1.Pod)      { p.Spec.HostNetwork = true }
func label(app string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Labels["app"] = app }
}

func service(name, namespace, app string, change ...func(*v1.ServiceSpec)) *v1.Service {
	s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: v1.ServiceSpec{Selector: map[string]string{"app": app}}}
	for _, c := range change {
		c(&s.Spec)
	}
	return s
}

// addresses returns the addresses of a name as text, "none" if it does not exist.
func (z Zone) addresses(name string) string {
	records, ok := z.Names[name]
	if !ok {
		return "none"
	}
	var text []string
	for _, a := range records.Addresses {
		text = append(text, a.String())
	}
	return strings.Join(text, " ")
}

func TestPodsHaveNames(t *testing.T) {
	z := Build("cluster.local", []Pod{
		pod("db", "default", "10.0.0.2 fd00::2"), pod("db", "shop", "10.0.0.3"),
		pod("starting", "shop", "10.0.0.4", notReady),
		pod("ending", "shop", "10.0.0.5", terminating), pod("new", "shop", ""), pod("host", "shop", "192.0.2.7", onHost),
		pod("done", "shop", "10.0.0.6", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }),
	}, nil)
	for name, want := range map[string]string{
		"db.default": "10.0.0.2 fd00::2", "db.shop": "10.0.0.3", "starting.shop": "", "ending.shop": "", "new.shop": "",
		"host.shop": "192.0.2.7", "done.shop": "", "missing.shop": "none", "db-node.default": "none",
	} {
		if got := z.addresses(name + ".svc.cluster.local"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := z.Reverse[netip.MustParseAddr("10.0.0.3")]; !slices.Equal(got, []string{"db.shop.svc.cluster.local"}) {
		t.Errorf("PTR: %q", got)
	}
	if got := z.Namespaces[netip.MustParseAddr("fd00::2")]; got != "default" {
		t.Errorf("the namespace of the client is %q", got)
	}
	if host := netip.MustParseAddr("192.0.2.7"); len(z.Reverse[host]) > 0 || z.Namespaces[host] != "" {
		t.Errorf("the node's address belongs to a pod: %v %q", z.Reverse[host], z.Namespaces[host])
	}
}

func TestServices(t *testing.T) {
	first := pod("db-0", "shop", "10.0.0.2 fd00::2", label("db"),
		func(p *v1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "DB-0", "db" })
	second := pod("db-1", "shop", "10.0.0.3", label("db"), func(p *v1.Pod) {
		p.Spec.Containers = []v1.Container{{Ports: []v1.ContainerPort{{Name: "sql", ContainerPort: 5432}}}}
	})
	pods := []Pod{first, second, pod("db-2", "shop", "10.0.0.4", label("db"), notReady),
		pod("db-3", "other", "10.0.0.5", label("db")), pod("web", "shop", "10.0.0.6")}
	ports := func(s *v1.ServiceSpec) {
		s.Ports = []v1.ServicePort{
			{Name: "sql", Port: 1, TargetPort: intstr.FromString("sql")},
			{Name: "metrics", Port: 9100, Protocol: v1.ProtocolUDP}, {Port: 7},
		}
	}
	z := Build("cluster.local", pods, []*v1.Service{
		service("db", "shop", "db", ports),
		service("all", "shop", "db", func(s *v1.ServiceSpec) { s.PublishNotReadyAddresses = true }),
		service("four", "shop", "db", func(s *v1.ServiceSpec) { s.IPFamilies = []v1.IPFamily{v1.IPv4Protocol} }),
		service("web", "shop", "nothing"),
		service("far", "shop", "", func(s *v1.ServiceSpec) {
			s.Type, s.ExternalName = v1.ServiceTypeExternalName,
				"DB.example.com."
		}),
		{ObjectMeta: metav1.ObjectMeta{Name: "unselected", Namespace: "shop"}},
	})
	for name, want := range map[string]string{
		"db": "10.0.0.2 10.0.0.3 fd00::2", "all": "10.0.0.2 10.0.0.3 10.0.0.4 fd00::2", "four": "10.0.0.2 10.0.0.3",
		"web": "", "unselected": "", "db-0.db": "10.0.0.2 fd00::2", "10-0-0-3.db": "10.0.0.3", "10-0-0-4.db": "none",
		"db-0": "10.0.0.2 fd00::2", "db-0.all": "none", "10-0-0-2.all": "10.0.0.2",
	} {
		if got := z.addresses(name + ".shop.svc.cluster.local"); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := z.Names["far.shop.svc.cluster.local"].Alias; got != "db.example.com" {
		t.Errorf("ExternalName: %q", got)
	}
	base := ".db.shop.svc.cluster.local"
	for name, want := range map[string][]Port{
		"_sql._tcp":     {{Target: "10-0-0-3" + base, Port: 5432}},
		"_metrics._udp": {{Target: "db-0" + base, Port: 9100}, {Target: "10-0-0-3" + base, Port: 9100}},
		"_._tcp":        nil,
	} {
		if diff := cmp.Diff(want, z.Names[name+base].Ports); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	if got := z.Reverse[netip.MustParseAddr("10.0.0.2")]; got[0] != "db-0"+base {
		t.Errorf("PTR: %q", got)
	}
}
