package kubeletconfig

// Topology are the fields of the topology manager.
type Topology struct {
	// Policy and Scope are empty if not set, Options nil.
	Policy, Scope string
	Options       map[string]string
}

// topologyFields are the fields of Topology. The caller of this package validates their values.
var topologyFields = map[string]func(*parser, string, any){
	"topologyManagerPolicy":        func(p *parser, n string, v any) { p.text(n, v, &p.cfg.Topology.Policy) },
	"topologyManagerScope":         func(p *parser, n string, v any) { p.text(n, v, &p.cfg.Topology.Scope) },
	"topologyManagerPolicyOptions": func(p *parser, n string, v any) { p.textMap(n, v, &p.cfg.Topology.Options) },
}

// textMap parses a map of strings.
func (p *parser) textMap(name string, v any, to *map[string]string) {
	m, ok := v.(map[string]any)
	if !ok {
		p.fail(name, "%v is not a map, such as {full-pcpus-only: \"true\"}", v)
		return
	}
	*to = map[string]string{}
	for _, key := range sortedKeys(m) {
		text, ok := m[key].(string)
		if !ok {
			p.fail(name+"."+key, "%v is not a string; quote it", m[key])
			continue
		}
		(*to)[key] = text
	}
}
