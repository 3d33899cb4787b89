package compose

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/podstead/podstead/cli/convert/podbuild"
	"github.com/podstead/podstead/cli/convert/report"
	"github.com/podstead/podstead/cli/convert/tree"
	podinfo "github.com/podstead/podstead/internal/pod"
	"github.com/podstead/podstead/internal/suggest"
	"github.com/podstead/podstead/manifest"
)

// File is one Compose file.
type File struct {
	Name  string
	Parts []manifest.Part
}

// Options are those of a conversion.
type Options struct {
	Namespace string
	// Profiles are the active ones; * is all.
	Profiles []string
	// EnvFiles replace .env.
	EnvFiles []string
	Host     podbuild.Host
}

// project is the conversion of the files together.
type project struct {
	*loader
	options  Options
	root     *tree.Node
	services map[string]*service
	// order are the names of the services in the order of the file.
	order []string
	// claimed are the named volumes that have a claim, objects the configs, secrets and
	// env files that have an object.
	claimed, objects map[string]bool
}

// service is the conversion of one service.
type service struct {
	p    *project
	name string
	// at is the position of the service.
	at   tree.Position
	node *tree.Node
	b    *podbuild.Builder
	c    *v1.Container
	// shared reports that the container is in the pod of another service.
	shared bool
	// dependencies are the services that it depends on.
	dependencies []string
}

// Convert converts files, of which later ones are merged into earlier ones.
func Convert(files []File, o Options, r *report.Report) []podbuild.Unit {
	p := &project{loader: newLoader(files, o, r), options: o, services: map[string]*service{}, claimed: map[string]bool{},
		objects: map[string]bool{}}
	for _, f := range files {
		root := p.load(f.Name, f.Parts)
		if root == nil {
			return nil
		}
		p.root = merge(p.root, root, "")
	}
	if r.Count(report.Error) > 0 {
		return nil
	}
	p.selectServices()
	p.createPods()
	for _, name := range p.order {
		p.services[name].convert()
	}
	for _, name := range p.order {
		if s := p.services[name]; !s.node.Get("depends_on").IsNull() {
			n := s.node.Get("depends_on")
			s.dependsOn(n, s.field("depends_on", n))
		}
	}
	p.checkCycles()
	p.networks()
	var units []podbuild.Unit
	for _, name := range p.order {
		if s := p.services[name]; !s.shared {
			units = append(units, s.b.Unit())
		}
	}
	return units
}

// selectServices resolves extends and keeps the services whose profile is active.
func (p *project) selectServices() {
	for _, f := range fieldsOf(p.root.Get("services")) {
		at := report.Field{At: f.Position, Path: "services." + f.Key}
		if !f.Value.Is(tree.Map) {
			p.report.Error(at, "is "+f.Value.Describe(), "must be a mapping with an image")
			continue
		}
		s := &service{p: p, name: f.Key, at: f.Position, node: p.extend(p.root, f.Value, f.Key, nil)}
		if profiles := s.node.Get("profiles"); !p.isActive(profiles) {
			p.report.Note(s.field("profiles", profiles), "the service is left out: no profile of it is active",
				"convert with --profile "+listOf(profiles)[0].String())
			continue
		}
		p.services[f.Key] = s
		p.order = append(p.order, f.Key)
	}
	if len(p.order) == 0 && p.report.Count(report.Error) == 0 {
		p.report.Error(report.Field{At: p.root.Position, Path: "services"}, "there is no service to convert", "")
	}
}

func (p *project) isActive(profiles *tree.Node) bool {
	list := listOf(profiles)
	return len(list) == 0 || slices.ContainsFunc(list, func(n *tree.Node) bool {
		return slices.Contains(p.options.Profiles, n.String()) || slices.Contains(p.options.Profiles, "*")
	})
}

// createPods creates the pod of each service, and its container in it. A service on the network
// of another one is a container of that one's pod.
func (p *project) createPods() {
	for _, name := range p.order {
		p.services[name].pod(nil)
	}
	for _, name := range p.order {
		s := p.services[name]
		s.c = s.b.AddContainer(podbuild.Name(name))
	}
}

// pod returns the builder of the service's pod.
func (s *service) pod(chain []string) *podbuild.Builder {
	if s.b != nil {
		return s.b
	}
	if leader, ok := strings.CutPrefix(s.node.Get("network_mode").String(), "service:"); ok {
		other := s.p.services[leader]
		switch {
		case other == nil:
			s.p.report.Error(s.field("network_mode", s.node.Get("network_mode")), fmt.Sprintf("there is no service %q", leader),
				"")
		case slices.Contains(chain, s.name) || other == s:
			s.p.report.Error(s.field("network_mode", s.node.Get("network_mode")), "the service is on its own network", "")
		default:
			s.b, s.shared = other.pod(append(chain, s.name)), true
			return s.b
		}
	}
	name := podbuild.Name(s.name)
	if name != s.name {
		s.p.report.Note(s.field("", nil), fmt.Sprintf("the pod is named %s, as names in Kubernetes must be", name),
			"use that name where other services refer to it")
	}
	s.b = podbuild.New(name, s.p.options.Namespace, s.field("", nil), s.p.report)
	return s.b
}

// field returns a field of the service for the report.
func (s *service) field(path string, n *tree.Node) report.Field {
	f := report.Field{At: s.at, Path: "services." + s.name}
	if path != "" {
		f.Path += "." + path
	}
	if n != nil {
		f.At = n.Position
	}
	return f
}

// convert converts the fields of the service.
func (s *service) convert() {
	if s.node.Get("image").IsNull() {
		remedy := "name an image"
		f := s.field("image", nil)
		if build := s.node.Get("build"); !build.IsNull() {
			f = s.field("build", build)
			remedy = "build it elsewhere, give it a name with image: in the Compose file, and push it to a registry, or copy " +
				"it with docker save and podstead images load"
		} else if provider := s.node.Get("provider"); !provider.IsNull() {
			f = s.field("provider", provider)
		}
		s.p.report.Error(f, "the service has no image: images are not built here", remedy)
		s.c.Image = "missing" // so that the check of the pod does not repeat the error
	}
	s.restart()
	s.healthcheck()
	for _, f := range s.node.Fields {
		at := report.Field{At: f.Position, Path: "services." + s.name + "." + f.Key}
		handler, known := handlers[f.Key]
		switch {
		case strings.HasPrefix(f.Key, "x-"):
		case !known:
			remedy := ""
			if meant := suggest.Nearest(f.Key, slices.Collect(maps.Keys(handlers))); meant != "" {
				remedy = fmt.Sprintf("did you mean %q?", meant)
			}
			s.p.report.Error(at, "is not a field of a service", remedy)
		case handler != nil && !f.Value.IsNull():
			handler(s, f.Value, at)
		}
	}
	s.stopDefaults()
}

// checkCycles reports services that depend on each other.
func (p *project) checkCycles() {
	for _, name := range p.order {
		s := p.services[name]
		cycle := podinfo.DependencyCycle(name, func(name string) []string {
			if other := p.services[name]; other != nil {
				return other.dependencies
			}
			return nil
		})
		if cycle != nil {
			p.report.Error(s.field("depends_on", s.node.Get("depends_on")),
				"the services depend on each other: "+strings.Join(cycle, " ▸ "), "remove one of the dependencies")
			return
		}
	}
}

// networks reports what the networks of the project do that one network for all pods does not.
func (p *project) networks() {
	used := map[string]bool{}
	for _, name := range p.order {
		for _, f := range fieldsOf(toMap(p.services[name].node.Get("networks"), "")) {
			used[f.Key] = true
		}
	}
	for _, f := range fieldsOf(p.root.Get("networks")) {
		at := report.Field{At: f.Position, Path: "networks." + f.Key}
		if internal := f.Value.Get("internal").String(); internal != "" && internal != "false" {
			p.report.Lost(at, "the network is not internal: its pods reach other networks", "use the firewall of the host")
		}
		for _, option := range fieldsOf(f.Value) {
			if slices.Contains([]string{"ipam", "driver_opts"}, option.Key) && !option.Value.IsNull() {
				p.report.Lost(report.Field{At: option.Position, Path: at.Path + "." + option.Key},
					"pods are on the network of the runtime", "configure it in /etc/cni/net.d")
			}
		}
	}
	if len(used) > 1 {
		at := p.root.Position
		if n := p.root.Get("networks"); n != nil {
			at = n.Position
		}
		p.report.Lost(report.Field{At: at, Path: "networks"},
			"all pods share one network: services on different networks reach each other", "use the firewall of the host")
	}
}
