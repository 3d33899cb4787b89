package compose

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podstead/podstead/cli/convert/docker"
	"github.com/podstead/podstead/cli/convert/podbuild"
	"github.com/podstead/podstead/cli/convert/report"
	"github.com/podstead/podstead/cli/convert/tree"
)

// aliasLabel selects the pod of a service by a Service for another name of it.
const aliasLabel = "app.kubernetes.io/name"

func (s *service) ports(n *tree.Node, f report.Field) {
	for i, item := range listOf(n) {
		at := f.Index(i, item.Position)
		var ports []docker.Port
		var chosen bool
		var err error
		if item.Is(tree.Map) {
			protocol := item.Get("protocol").String()
			if protocol == "" {
				protocol = "tcp"
			}
			ports, chosen, err = docker.Range(item.Get("host_ip").String(), item.Get("published").String(),
				item.Get("target").String(), protocol)
		} else {
			ports, chosen, err = docker.ParsePorts(item.String())
		}
		if err != nil {
			s.p.report.Error(at, err.Error(), "")
			continue
		}
		if chosen {
			s.p.report.Note(at, fmt.Sprintf("the first port of the range is used: %d", ports[0].Host), "")
		}
		if ports[0].Host == 0 {
			s.p.report.Lost(at, "no port of the host is published: docker chooses one at each start",
				fmt.Sprintf(`write HOST:CONTAINER, such as "8080:%d"`, ports[0].Container))
		}
		if s.b.Pod.Spec.HostNetwork || s.node.Get("network_mode").String() == "host" {
			for i := range ports {
				if ports[i].Host != ports[i].Container && ports[i].Host != 0 {
					s.p.report.Lost(at, "on the network of the host a port has one number", "")
				}
				ports[i].Host = ports[i].Container
			}
		}
		s.b.AddPorts(s.c, ports)
	}
}

func (s *service) expose(n *tree.Node, f report.Field) {
	for i, item := range listOf(n) {
		ports, _, err := docker.ParsePorts(item.String())
		if err != nil || strings.Contains(item.String(), ":") {
			s.p.report.Error(f.Index(i, item.Position), fmt.Sprintf("%q is not a port", item.String()),
				"must be PORT[/PROTOCOL]")
			continue
		}
		for j := range ports {
			ports[j].Host = 0
			if slices.ContainsFunc(s.c.Ports, func(p v1.ContainerPort) bool { return p.ContainerPort == ports[j].Container }) {
				continue
			}
			s.b.AddPorts(s.c, ports[j:j+1])
		}
	}
}

func (s *service) networkMode(n *tree.Node, f report.Field) {
	switch mode := n.String(); {
	case mode == "host":
		s.b.Pod.Spec.HostNetwork = true
	case mode == "bridge" || mode == "default" || s.shared:
	case mode == "none":
		s.p.report.Lost(f, "the pod has a network", "use the firewall of the host")
	default:
		s.p.report.Lost(f, fmt.Sprintf("the network %q is not known: the pod is on the network of the runtime", mode), "")
	}
}

// serviceNetworks reports what a service has on its networks.
func (s *service) serviceNetworks(n *tree.Node, f report.Field) {
	for _, field := range s.pairs(n, f, "") {
		at := f.Child(field.Key, field.Position)
		if field.Key != "default" && !slices.Contains(namesOf(s.p.root.Get("networks")), field.Key) {
			s.p.report.Error(at, "the network is not declared", "add it under networks")
		}
		for _, option := range fieldsOf(field.Value) {
			inner := at.Child(option.Key, option.Position)
			switch option.Key {
			case "aliases":
				for _, alias := range listOf(option.Value) {
					s.alias(alias.String(), inner)
				}
			case "priority", "gw_priority", "interface_name":
				s.p.report.Note(inner, "has no effect: the pod has one network", "")
			default:
				s.p.report.Lost(inner, "has no counterpart in a pod", podbuild.RemedyIP)
			}
		}
	}
}

func (s *service) links(n *tree.Node, f report.Field) {
	for i, item := range listOf(n) {
		name, alias, aliased := strings.Cut(item.String(), ":")
		at := f.Index(i, item.Position)
		other := s.p.services[name]
		if other == nil {
			s.p.report.Error(at, fmt.Sprintf("there is no service %q", name), "")
			continue
		}
		if aliased {
			other.alias(alias, at)
		}
		if other.b != s.b {
			s.dependencies = append(s.dependencies, name)
			s.b.DependsOn(other.b.Pod.Name)
		}
	}
}

// alias gives the pod another name, by a headless Service.
func (s *service) alias(name string, f report.Field) {
	valid := podbuild.Name(name)
	if valid != name {
		s.p.report.Lost(f, fmt.Sprintf("%q is not a name of a Service", name), "use the name "+s.b.Pod.Name)
		return
	}
	if name == s.b.Pod.Name || s.p.objects["Service "+name] {
		return
	}
	s.p.objects["Service "+name] = true
	if s.b.Pod.Labels == nil {
		s.b.Pod.Labels = map[string]string{}
	}
	s.b.Pod.Labels[aliasLabel] = s.b.Pod.Name
	s.b.AddObject(&v1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: s.b.Meta(name),
		Spec: v1.ServiceSpec{ClusterIP: v1.ClusterIPNone, Selector: map[string]string{aliasLabel: s.b.Pod.Name}},
	}, f)
}

func (s *service) hostname(n *tree.Node, f report.Field) {
	name := podbuild.Name(n.String())
	if name != n.String() {
		s.p.report.Note(f, fmt.Sprintf("the hostname is %s: it must be a label in lower case", name), "")
	}
	s.b.Pod.Spec.Hostname = name
}

func (s *service) extraHosts(n *tree.Node, f report.Field) {
	for _, field := range s.pairs(n, f, "=:") {
		for _, ip := range listOf(field.Value) {
			s.b.AddHost(f.Child(field.Key, field.Position), field.Key+"="+ip.String())
		}
	}
}

// dns sets the resolver from dns, dns_search and dns_opt at once.
func (s *service) dns(_ *tree.Node, f report.Field) {
	if s.b.Pod.Spec.DNSConfig != nil {
		return
	}
	texts := func(key string) (all []string) {
		for _, n := range listOf(s.node.Get(key)) {
			all = append(all, n.String())
		}
		return all
	}
	s.b.SetDNS(f, podbuild.DNS{Servers: texts("dns"), Search: texts("dns_search"), Options: texts("dns_opt")})
}

func (s *service) pid(n *tree.Node, f report.Field) {
	if mode := n.String(); mode == "host" {
		s.b.Pod.Spec.HostPID = true
	} else {
		s.p.report.Lost(f, fmt.Sprintf("the processes of %q are not visible", mode),
			"put both containers into one pod with shareProcessNamespace: true")
	}
}

func (s *service) ipc(n *tree.Node, f report.Field) {
	switch mode := n.String(); mode {
	case "host":
		s.b.Pod.Spec.HostIPC = true
	case "private", "shareable":
	default:
		s.p.report.Lost(f, fmt.Sprintf("the IPC namespace %q has no counterpart in a pod", mode),
			"put both containers into one pod, which shares it")
	}
}
