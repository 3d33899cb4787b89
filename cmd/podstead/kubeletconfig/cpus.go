package kubeletconfig

// CPUs are the fields of the CPU manager.
type CPUs struct {
	// Policy is empty if not set.
	Policy string
	// Options are the values of cpuManagerPolicyOptions, nil if not set.
	Options map[string]string
	// Reserved is reservedSystemCPUs, a list such as 0-1.
	Reserved string
}

// cpuFields are the fields of CPUs. The caller of this package validates their values.
var cpuFields = map[string]func(*parser, string, any){
	"cpuManagerPolicy":        func(p *parser, n string, v any) { p.text(n, v, &p.cfg.CPUs.Policy) },
	"cpuManagerPolicyOptions": (*parser).cpuOptions,
	"reservedSystemCPUs":      func(p *parser, n string, v any) { p.text(n, v, &p.cfg.CPUs.Reserved) },
}

func (p *parser) cpuOptions(name string, v any) {
	m, ok := v.(map[string]any)
	if !ok {
		p.fail(name, "%v is not a map, such as {full-pcpus-only: \"true\"}", v)
		return
	}
	p.cfg.CPUs.Options = map[string]string{}
	for _, key := range sortedKeys(m) {
		text, ok := m[key].(string)
		if !ok {
			p.fail(name+"."+key, "%v is not a string; quote it", m[key])
			continue
		}
		p.cfg.CPUs.Options[key] = text
	}
}
